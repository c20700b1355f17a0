import type { ReactNode } from "react";
import { Link } from "wouter";
import { useTexts } from "../../i18n";
import { Panel } from "../../ui/Panel";
import { gpusInFull } from "../../ui/gpus";
import { Time } from "../../ui/Time";
import styles from "./Facts.module.css";
import type { Job } from "./queries";
import { text } from "./texts";

export function Facts({ job, cards }: { job: Job; cards: string[] }) {
  const say = useTexts(text);
  const nodes = [...new Set(job.placement.map((place) => place.node))].join(", ");
  const facts: [string, ReactNode][] = [
    [say("id"), <code>{job.id}</code>],
    [say("owner"), `${job.user} · ${job.tenant}`],
    [say("queue"), job.queue],
    [say("lane"), job.lane],
    ["GPU", gpusInFull(job)],
    [say("tasks"), job.tasks > 1 && String(job.tasks)],
    [say("submitted"), <Time at_s={job.submitted_s} />],
    [say("attempt"), job.attempt > 0 && String(job.attempt + 1)],
    [say("preemptions"), job.preemptions > 0 && String(job.preemptions)],
    [say("retries"), job.retries_left > 0 && String(job.retries_left)],
    [say("cards"), [nodes, cards.join(", ")].filter(Boolean).join(": ")],
    [say("result"), job.result && resultWords(job.result, say)],
    [say("after"), job.after.length > 0 && job.after.map((wait) => <Link key={wait.job} href={`/jobs/${wait.job}`}>{wait.job}</Link>)],
  ];
  return (
    <Panel title={say("facts")}>
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

function resultWords(result: NonNullable<Job["result"]>, say: ReturnType<typeof useTexts<keyof typeof text.en>>): string {
  return [
    result.exit_code == null ? "" : say("exitCode", { code: result.exit_code }),
    result.signal == null ? "" : say("signal", { signal: result.signal }),
    result.oom ? say("oom") : "",
  ].filter(Boolean).join(", ");
}
