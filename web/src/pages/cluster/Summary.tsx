import { useState } from "react";
import { useTexts } from "../../i18n";
import { count } from "../../i18n/format";
import { type Cluster, gangSizes, type Node, type Parts, partsOfCards } from "./sums";
import styles from "./Summary.module.css";
import { text } from "./texts";

const ORDER = ["inUse", "free", "unhealthy", "outside", "drained"] as const;

/** Number of cards by state, and how many of the free ones a gang can use. */
export function Summary({ cluster, nodes }: { cluster: Cluster; nodes: readonly Node[] }) {
  const t = useTexts(text);
  const parts = partsOfCards(nodes);
  return (
    <section className={styles.summary} aria-label={t("summary")}>
      <StackedBar parts={parts} />
      <dl className={styles.numbers}>
        <Number label={t("gpus")} value={parts.all} />
        <Number label={t("inUse")} value={parts.inUse} part="inUse" />
        <Number label={t("free")} value={parts.free} part="free" />
        <Usable cluster={cluster} />
        <Number label={t("unhealthy")} value={parts.unhealthy} part="unhealthy" />
        <Number label={t("outside")} value={parts.outside} part="outside" />
        {parts.drained > 0 && <Number label={t("drained")} value={parts.drained} part="drained" />}
      </dl>
    </section>
  );
}

function StackedBar({ parts }: { parts: Parts }) {
  return (
    <div className={styles.stack} aria-hidden="true">
      {ORDER.filter((name) => parts[name] > 0).map((name) => (
        <span key={name} data-part={name} style={{ flexGrow: parts[name] }} />
      ))}
    </div>
  );
}

function Number({ label, value, part }: { label: string; value: number; part?: string }) {
  return (
    <div className={styles.number} data-part={part} data-zero={value === 0 || undefined}>
      <dt>{label}</dt>
      <dd>{count(value)}</dd>
    </div>
  );
}

/** Number of free cards that gangs of the chosen size can use. */
function Usable({ cluster }: { cluster: Cluster }) {
  const t = useTexts(text);
  const sizes = gangSizes(cluster);
  const [chosen, setChosen] = useState(8);
  const size = sizes.includes(chosen) ? chosen : (sizes.at(-1) ?? 1);
  const gangs = cluster.usable[String(size)] ?? 0;
  return (
    <div className={styles.number} data-part="usable" data-zero={gangs === 0 || undefined}>
      <dt>
        {t("usable")}{" "}
        <select value={size} aria-label={t("gangSize")} onChange={(event) => setChosen(+event.target.value)}>
          {sizes.map((option) => <option key={option}>{option}</option>)}
        </select>
      </dt>
      <dd title={t("usableNote", { gangs, size })}>{count(gangs * size)}</dd>
    </div>
  );
}
