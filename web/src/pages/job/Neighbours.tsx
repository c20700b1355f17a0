import { Link } from "wouter";
import type { Schemas } from "../../api/client";
import { useTexts } from "../../i18n";
import { gib, percent } from "../../i18n/format";
import { ErrorBox } from "../../ui/ErrorBox";
import { Panel } from "../../ui/Panel";
import styles from "./Neighbours.module.css";
import { type Job, useNeighbours } from "./queries";
import { text } from "./texts";

type Told = Schemas["NeighboursView"];
type Neighbour = Schemas["NeighbourView"];

/** Who else is on its cards, and what that costs it: as expected, and as seen in its steps. */
export function Neighbours({ job }: { job: Job }) {
  const say = useTexts(text);
  const { data, error } = useNeighbours(job);
  const shared = data?.cards.filter((card) => card.neighbours.length > 0) ?? [];
  return (
    <Panel title={say("neighbours")}>
      {error && <ErrorBox error={error} />}
      {data?.cards.length === 0 && <p className={styles.note}>{say("notOnCards")}</p>}
      {data && data.cards.length > 0 && shared.length === 0 && <p className={styles.note}>{say("alone")}</p>}
      {data && shared.length > 0 && <Cost told={data} />}
      {shared.length > 0 && (
        <table className={styles.table}>
          <thead><tr><th scope="col">{say("beside")}</th><th scope="col">{say("share")}</th><th scope="col">{say("speedLeft")}</th></tr></thead>
          <tbody>
            {shared.flatMap((card) => card.neighbours.map((one, n) => <Row key={`${card.card}/${n}`} card={card.card} one={one} />))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}

function Row({ card, one }: { card: string; one: Neighbour }) {
  const say = useTexts(text);
  const share = [!one.sm_ratio ? "" : `${percent(one.sm_ratio)} SM`, one.memory_bytes == null ? "" : `${gib(one.memory_bytes)} GiB`];
  return (
    <tr>
      <td>
        {one.job ? <Link href={`/jobs/${one.job}`}>{one.name || one.job}</Link> : say("otherTenant")}
        <span className={styles.note}>{card}</span>
      </td>
      <td>{share.filter(Boolean).join(", ") || "–"}</td>
      <td title={one.basis ?? ""}>{percent(one.speed_ratio)}</td>
    </tr>
  );
}

function Cost({ told }: { told: Told }) {
  const say = useTexts(text);
  const slower = (ratio: number) => `${Math.max(0, Math.round((1 / ratio - 1) * 100))}%`;
  const { expected_ratio, observed_ratio, steps_per_s, alone_steps_per_s } = told;
  if (!expected_ratio && !observed_ratio) return <p className={styles.note}>{say("costUnknown")}</p>;
  return (
    <p className={styles.cost}>
      {expected_ratio ? <strong>{say("expectedCost", { cost: slower(expected_ratio) })}</strong> : null}
      {observed_ratio ? <strong>{say("observedCost", { cost: slower(observed_ratio) })}</strong> : null}
      {steps_per_s && alone_steps_per_s
        ? <span className={styles.note}>{say("steps", { now: steps_per_s.toFixed(2), alone: alone_steps_per_s.toFixed(2) })}</span>
        : null}
    </p>
  );
}
