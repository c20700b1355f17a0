import { memo } from "react";
import { Link } from "wouter";
import type { Schemas } from "../../api/client";
import { useTexts } from "../../i18n";
import { gib, percent } from "../../i18n/format";
import { Bar } from "../../ui/Bar";
import { type Sample, sampleOf } from "./sample";
import type { Card } from "./sums";
import { text } from "./texts";
import styles from "./Tile.module.css";

/** One card: utilisation, memory, power, temperature and its jobs. */
export const Tile = memo(function Tile({ card, node }: { card: Card; node: string }) {
  const t = useTexts(text);
  const state = t(`state.${card.state}`);
  const sample = sampleOf(card);
  return (
    <li className={styles.tile} data-state={card.state} title={`${node} · ${card.id}`}>
      <div className={styles.head}>
        <strong>{card.index}</strong>
        <span className={styles.state}>{state}</span>
        {sample && <span className={styles.busy} title={t("utilisation")}>{percent(sample.utilisation_ratio)}</span>}
      </div>
      {sample ? <Meters card={card} sample={sample} /> : <p className={styles.quiet}>{t("noSample")}</p>}
      <Users card={card} />
    </li>
  );
});

function Meters({ card, sample }: { card: Card; sample: Sample }) {
  const t = useTexts(text);
  const used = sample.memory_used_bytes;
  return (
    <div className={styles.meters}>
      <Bar ratio={sample.utilisation_ratio} />
      <Bar kind="mem" ratio={used == null ? null : used / card.memory_bytes} />
      <p className={styles.facts}>
        <span title={t("memory")}>{gib(used)}/{gib(card.memory_bytes)} GiB</span>
        <span title={`${t("power")}, ${t("temperature")}`}>
          {sample.power_w != null && `${Math.round(sample.power_w)} W`}{" "}
          {sample.temperature_c != null && `${Math.round(sample.temperature_c)} °C`}
        </span>
      </p>
    </div>
  );
}

function Users({ card }: { card: Card }) {
  if (card.jobs.length === 0) return card.cause ? <p className={styles.cause}>{card.cause}</p> : null;
  return (
    <ul className={styles.users}>
      {card.jobs.map((job, at) => <User key={job.id ?? at} job={job} />)}
    </ul>
  );
}

function User({ job }: { job: Schemas["CardUserView"] }) {
  const t = useTexts(text);
  return (
    <li>
      {job.id ? <Link href={`/jobs/${job.id}`}>{job.name || job.id}</Link> : <span className={styles.quiet}>{t("other")}</span>}
      <span className={styles.share}>{shareText(job, t) || job.user}</span>
    </li>
  );
}

function shareText(job: Schemas["CardUserView"], t: ReturnType<typeof useTexts<"share">>): string {
  const { sm, memory_bytes: memory } = job.share ?? {};
  const parts = [];
  if (typeof sm === "number" && sm > 0) parts.push(t("share", { sm: percent(sm) }));
  if (typeof memory === "number") parts.push(`${gib(memory)} GiB`);
  return parts.join(" · ");
}
