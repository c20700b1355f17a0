import { Link } from "wouter";
import type { Schemas } from "../../api/client";
import { useTexts } from "../../i18n";
import { gib, percent } from "../../i18n/format";
import { ErrorBox } from "../../ui/ErrorBox";
import { Panel } from "../../ui/Panel";
import styles from "./Neighbours.module.css";
import { type Job, useNeighbours } from "./queries";
import { text } from "./texts";

type View = Schemas["NeighboursView"];
type Neighbour = Schemas["NeighbourView"];

/** Neighbours on the job's cards, and the slowdown they cause: predicted, and observed in its steps. */
export function Neighbours({ job }: { job: Job }) {
  const t = useTexts(text);
  const { data, error } = useNeighbours(job);
  const shared = data?.cards.filter((card) => card.neighbours.length > 0) ?? [];
  return (
    <Panel title={t("neighbours")}>
      {error && <ErrorBox error={error} />}
      {data?.cards.length === 0 && <p className={styles.note}>{t("notOnCards")}</p>}
      {data && data.cards.length > 0 && shared.length === 0 && <p className={styles.note}>{t("alone")}</p>}
      {data && shared.length > 0 && <Cost view={data} />}
      {shared.length > 0 && (
        <table className={styles.table}>
          <thead><tr><th scope="col">{t("beside")}</th><th scope="col">{t("share")}</th><th scope="col">{t("speedLeft")}</th></tr></thead>
          <tbody>
            {shared.flatMap((card) => card.neighbours.map((neighbour, n) => <Row key={`${card.card}/${n}`} card={card.card} neighbour={neighbour} />))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}

function Row({ card, neighbour }: { card: string; neighbour: Neighbour }) {
  const t = useTexts(text);
  const share = [!neighbour.sm_ratio ? "" : `${percent(neighbour.sm_ratio)} SM`, neighbour.memory_bytes == null ? "" : `${gib(neighbour.memory_bytes)} GiB`];
  return (
    <tr>
      <td>
        {neighbour.job ? <Link href={`/jobs/${neighbour.job}`}>{neighbour.name || neighbour.job}</Link> : t("otherTenant")}
        <span className={styles.note}>{card}</span>
      </td>
      <td>{share.filter(Boolean).join(", ") || "–"}</td>
      <td title={neighbour.basis ?? ""}>{percent(neighbour.speed_ratio)}</td>
    </tr>
  );
}

function Cost({ view }: { view: View }) {
  const t = useTexts(text);
  const slower = (ratio: number) => `${Math.max(0, Math.round((1 / ratio - 1) * 100))}%`;
  const { expected_ratio, observed_ratio, steps_per_s, alone_steps_per_s } = view;
  if (!expected_ratio && !observed_ratio) return <p className={styles.note}>{t("costUnknown")}</p>;
  return (
    <p className={styles.cost}>
      {expected_ratio ? <strong>{t("expectedCost", { cost: slower(expected_ratio) })}</strong> : null}
      {observed_ratio ? <strong>{t("observedCost", { cost: slower(observed_ratio) })}</strong> : null}
      {steps_per_s && alone_steps_per_s
        ? <span className={styles.note}>{t("steps", { now: steps_per_s.toFixed(2), alone: alone_steps_per_s.toFixed(2) })}</span>
        : null}
    </p>
  );
}
