import { useState } from "react";
import { useTexts } from "../../i18n";
import { count } from "../../i18n/format";
import { type Cluster, gangSizes, type Node, type Parts, partsOfCards } from "./sums";
import styles from "./Summary.module.css";
import { text } from "./texts";

const ORDER = ["inUse", "free", "unhealthy", "outside", "drained"] as const;

/** Free is not one number: what is free, what of it a gang can use, and what is out of use and why. */
export function Summary({ cluster, nodes }: { cluster: Cluster; nodes: readonly Node[] }) {
  const say = useTexts(text);
  const parts = partsOfCards(nodes);
  return (
    <section className={styles.summary} aria-label={say("summary")}>
      <StackedBar parts={parts} />
      <dl className={styles.numbers}>
        <Number label={say("gpus")} value={parts.all} />
        <Number label={say("inUse")} value={parts.inUse} part="inUse" />
        <Number label={say("free")} value={parts.free} part="free" />
        <Usable cluster={cluster} />
        <Number label={say("unhealthy")} value={parts.unhealthy} part="unhealthy" />
        <Number label={say("outside")} value={parts.outside} part="outside" />
        {parts.drained > 0 && <Number label={say("drained")} value={parts.drained} part="drained" />}
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

/** How many of the free cards a gang of the chosen size can really have. */
function Usable({ cluster }: { cluster: Cluster }) {
  const say = useTexts(text);
  const sizes = gangSizes(cluster);
  const [wanted, setWanted] = useState(8);
  const size = sizes.includes(wanted) ? wanted : (sizes.at(-1) ?? 1);
  const gangs = cluster.usable[String(size)] ?? 0;
  return (
    <div className={styles.number} data-part="usable" data-zero={gangs === 0 || undefined}>
      <dt>
        {say("usable")}{" "}
        <select value={size} aria-label={say("gangSize")} onChange={(event) => setWanted(+event.target.value)}>
          {sizes.map((one) => <option key={one}>{one}</option>)}
        </select>
      </dt>
      <dd title={say("usableNote", { gangs, size })}>{count(gangs * size)}</dd>
    </div>
  );
}
