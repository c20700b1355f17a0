import type { ReactNode } from "react";
import { Link } from "wouter";
import { useTexts } from "../../i18n";
import { Panel } from "../../ui/Panel";
import { gpusInFull } from "../../ui/gpus";
import { Time } from "../../ui/Time";
import styles from "./Facts.module.css";
import type { Job } from "./queries";
import { sloText } from "./slo";
import { text } from "./texts";

export function Facts({ job, cards }: { job: Job; cards: string[] }) {
  const t = useTexts(text);
  const nodes = [...new Set(job.placement.map((place) => place.node))].join(", ");
  const facts: [string, ReactNode][] = [
    [t("id"), <code>{job.id}</code>],
    [t("owner"), `${job.user} · ${job.tenant}`],
    [t("queue"), job.queue],
    [t("lane"), job.lane],
    ["GPU", gpusInFull(job)],
    [t("tasks"), job.tasks > 1 && String(job.tasks)],
    ["SLO", job.slo && sloText(job.slo, t)],
    [t("submitted"), <Time at_s={job.submitted_s} />],
    [t("eligible"), job.eligible_s !== null && job.eligible_s - job.submitted_s >= 1 && <Time at_s={job.eligible_s} />],
    [t("attempt"), job.attempt > 0 && String(job.attempt + 1)],
    [t("preemptions"), job.preemptions > 0 && String(job.preemptions)],
    [t("retries"), job.retries_left > 0 && String(job.retries_left)],
    [t("losses"), job.losses > 0 && String(job.losses)],
    [t("nextAttempt"), job.next_attempt_s !== null && <Time at_s={job.next_attempt_s} />],
    [t("cards"), [nodes, cards.join(", ")].filter(Boolean).join(": ")],
    [t("result"), job.result && resultText(job.result, t)],
    [t("after"), job.after.length > 0 && job.after.map((wait) => <Link key={wait.job} href={`/jobs/${wait.job}`}>{wait.job}</Link>)],
  ];
  return (
    <Panel title={t("facts")}>
      <dl className={styles.facts}>
        {facts.filter(([, value]) => value).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}

function resultText(result: NonNullable<Job["result"]>, t: ReturnType<typeof useTexts<keyof typeof text.en>>): string {
  return [
    result.exit_code == null ? "" : t("exitCode", { code: result.exit_code }),
    result.signal == null ? "" : t("signal", { signal: result.signal }),
    result.oom ? t("oom") : "",
  ].filter(Boolean).join(", ");
}
