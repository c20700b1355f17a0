import { useState } from "react";
import { useTexts } from "../../i18n";
import { percent } from "../../i18n/format";
import { Panel } from "../../ui/Panel";
import { Segments } from "../../ui/Segments";
import styles from "./HeatMap.module.css";
import { type CardTables, grid, type Pair, shadeOf, times } from "./shades";
import { text } from "./texts";

type Shown = "speed" | "slowdown";

/** Table of all pairs with coloured cells. */
export function HeatMap({ card }: { card: CardTables }) {
  const t = useTexts(text);
  const [shown, setShown] = useState<Shown>("speed");
  const { names, at } = grid(card);
  return (
    <Panel
      title={t("heat")} note={t("heatNote")}
      tools={
        <Segments
          label={t("show")} value={shown} onChange={setShown}
          options={[["speed", t("show.speed")], ["slowdown", t("show.slowdown")]]}
        />
      }
    >
      <div className={styles.around} tabIndex={0} role="group" aria-label={t("heat")}>
        <table className={styles.map}>
          <thead>
            <tr>
              <th scope="col">{t("own")}</th>
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
  const t = useTexts(text);
  if (!pair) return <td>–</td>;
  const values = {
    own: pair.own, other: pair.other, ratio: percent(pair.speed_ratio), spread: percent(pair.spread), source: t(`source.${pair.source}`),
  };
  const title = pair.slowdown === null ? t("noFit", values) : t("pair", values);
  const value = pair.slowdown === null ? "✕" : shown === "speed" ? percent(pair.speed_ratio) : times(pair.slowdown);
  return <td data-shade={shadeOf(pair)} data-source={pair.source} title={title}>{value}</td>;
}

function Legend() {
  const t = useTexts(text);
  return (
    <div className={styles.legend}>
      <span>{t("least")}</span>
      <span className={styles.shades} aria-hidden="true">{[0, 1, 2, 3, 4].map((shade) => <i key={shade} data-shade={shade} />)}</span>
      <span>{t("most")}</span>
      <span className={styles.sources}>
        {(["measured", "learned", "predicted"] as const).map((source) => (
          <span key={source}><b data-source={source} aria-hidden="true">75%</b> {t(`source.${source}`)}</span>
        ))}
      </span>
    </div>
  );
}
