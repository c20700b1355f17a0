import { useState } from "react";
import { useTexts } from "../../i18n";
import { percent } from "../../i18n/format";
import { Panel } from "../../ui/Panel";
import { Segments } from "../../ui/Segments";
import styles from "./HeatMap.module.css";
import { type CardTables, grid, type Pair, shadeOf, times } from "./shades";
import { text } from "./texts";

type Shown = "speed" | "slowdown";

/** A table with coloured cells: read as numbers, or seen at a glance. */
export function HeatMap({ card }: { card: CardTables }) {
  const say = useTexts(text);
  const [shown, setShown] = useState<Shown>("speed");
  const { names, at } = grid(card);
  return (
    <Panel
      title={say("heat")} note={say("heatNote")}
      tools={
        <Segments
          label={say("show")} value={shown} onChange={setShown}
          options={[["speed", say("show.speed")], ["slowdown", say("show.slowdown")]]}
        />
      }
    >
      <div className={styles.around} tabIndex={0} role="group" aria-label={say("heat")}>
        <table className={styles.map}>
          <thead>
            <tr>
              <th scope="col">{say("own")}</th>
              {names.map((name) => <th key={name} scope="col" className={styles.other}><span>{name}</span></th>)}
            </tr>
          </thead>
          <tbody>
            {names.map((own) => (
              <tr key={own}>
                <th scope="row">{own}</th>
                {names.map((other) => <Cell key={other} pair={at(own, other)} shown={shown} />)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Legend />
    </Panel>
  );
}

function Cell({ pair, shown }: { pair: Pair | undefined; shown: Shown }) {
  const say = useTexts(text);
  if (!pair) return <td>–</td>;
  const values = {
    own: pair.own, other: pair.other, ratio: percent(pair.speed_ratio), spread: percent(pair.spread), source: say(`source.${pair.source}`),
  };
  const title = pair.slowdown === null ? say("noFit", values) : say("pair", values);
  const told = pair.slowdown === null ? "✕" : shown === "speed" ? percent(pair.speed_ratio) : times(pair.slowdown);
  return <td data-shade={shadeOf(pair)} data-source={pair.source} title={title}>{told}</td>;
}

function Legend() {
  const say = useTexts(text);
  return (
    <div className={styles.legend}>
      <span>{say("least")}</span>
      <span className={styles.shades} aria-hidden="true">{[0, 1, 2, 3, 4].map((shade) => <i key={shade} data-shade={shade} />)}</span>
      <span>{say("most")}</span>
      <span className={styles.sources}>
        {(["measured", "learned", "predicted"] as const).map((source) => (
          <span key={source}><b data-source={source} aria-hidden="true">75%</b> {say(`source.${source}`)}</span>
        ))}
      </span>
    </div>
  );
}
