import { Link } from "wouter";
import { useCluster } from "../../api/queries";
import { useTexts } from "../../i18n";
import { clock, count, span } from "../../i18n/format";
import { Badge } from "../../ui/Badge";
import { useNow } from "../../ui/Time";
import styles from "./Plan.module.css";
import { text } from "./texts";
import type { Plan } from "./usePlan";

/** Start, placement, and the effect on other jobs. */
export function PlanView({ plan, gpus }: { plan: Plan; gpus: number | null }) {
  const t = useTexts(text);
  return (
    <div className={styles.plan}>
      <When plan={plan} />
      {plan.refused ? (
        <p className={styles.cure}>{plan.refused.cure}</p>
      ) : (
        <dl className={styles.facts}>
          <Fact name={t("plan.why")}><Why plan={plan} gpus={gpus} /></Fact>
          {plan.placement.length > 0 && <Fact name={t("plan.where")}><Where plan={plan} /></Fact>}
          {plan.run && <Fact name={t("plan.run")}><Run run={plan.run} /></Fact>}
          {plan.jobs > 1 && <Fact name={t("plan.jobs")}>{t("plan.sweep", { n: count(plan.jobs) })}</Fact>}
          <Fact name={t("plan.others")}><Others plan={plan} /></Fact>
        </dl>
      )}
      <Notes title={t("plan.chosen")} lines={plan.chosen} />
      <Notes title={t("plan.warnings")} lines={plan.warnings} />
    </div>
  );
}

function When({ plan }: { plan: Plan }) {
  const t = useTexts(text);
  const now_s = useNow();
  if (plan.refused) return <p className={styles.big} data-tone="bad">{plan.refused.message}</p>;
  if (plan.starts_now) return <p className={styles.big} data-tone="good">{t("plan.now")}</p>;
  if (plan.start_s === null) return <p className={styles.big} data-tone="warn">{t("plan.unknown")}</p>;
  const wait = span(plan.start_s - now_s);
  return (
    <>
      <p className={styles.big}>{t("plan.in", { span: wait })}</p>
      <p className={styles.range}>
        {t("plan.at", { at: clock(plan.start_s) })}
        {plan.high_s !== null && plan.high_s > plan.start_s + 1 && ` · ${t("plan.by", { at: clock(plan.high_s) })}`}
        {plan.promised_s !== null && ` · ${t("plan.reserved", { at: clock(plan.promised_s) })}`}
      </p>
    </>
  );
}

/** Free resources, or the scheduler's reasons why the job would be pending. */
function Why({ plan, gpus }: { plan: Plan; gpus: number | null }) {
  const t = useTexts(text);
  const cluster = useCluster();
  if (!plan.starts_now) return plan.reasons.length > 0 ? <Reasons plan={plan} /> : <>{t("why.waits")}</>;
  if (gpus === null) return <>{t("why.fits")}</>;
  const values = { requested: count(gpus), free: count(cluster.data?.free ?? 0), all: count(cluster.data?.gpus ?? 0) };
  return <>{t("why.fitsGpus", values)}</>;
}

function Reasons({ plan }: { plan: Plan }) {
  return (
    <ul className={styles.reasons}>
      {plan.reasons.map((reason, n) => (
        <li key={`${reason.code}${n}`}>
          {reason.message}
          {reason.cure && <span className={styles.source}>{reason.cure}</span>}
        </li>
      ))}
    </ul>
  );
}

function Where({ plan }: { plan: Plan }) {
  const t = useTexts(text);
  return (
    <ul className={styles.where}>
      {plan.placement.slice(0, 16).map((task) => (
        <li key={task.task}>
          {plan.placement.length > 1 && <span className={styles.task}>{t("plan.task", { n: task.task })}</span>}
          <strong>{task.node}</strong>
          {task.cards.map((card) => <Badge key={card}>{card}</Badge>)}
        </li>
      ))}
      {plan.placement.length > 16 && <li>{t("plan.moreTasks", { n: plan.placement.length - 16 })}</li>}
    </ul>
  );
}

function Run({ run }: { run: NonNullable<Plan["run"]> }) {
  const t = useTexts(text);
  if (run.mid_s === null) return <>–</>;
  const high = run.high_s !== null && run.high_s > run.mid_s ? ` – ${span(run.high_s)}` : "";
  return <>{span(run.mid_s)}{high} <span className={styles.source}>{t("plan.source", { source: run.source })}</span></>;
}

function Others({ plan }: { plan: Plan }) {
  const t = useTexts(text);
  if (plan.delayed.length + plan.preempted.length + plan.others === 0) return <>{t("plan.noDelay")}</>;
  return (
    <ul className={styles.where}>
      {plan.delayed.slice(0, 10).map((delay) => (
        <li key={delay.job}><Link href={`/jobs/${delay.job}`}>{delay.job.slice(0, 10)}</Link> {t("plan.delayed", { span: span(delay.by_s) })}</li>
      ))}
      {plan.preempted.map((job) => (
        <li key={job}><Link href={`/jobs/${job}`}>{job.slice(0, 10)}</Link> <Badge tone="warn">{t("plan.preempted")}</Badge></li>
      ))}
      {plan.others > 0 && <li>{t("plan.elsewhere", { n: count(plan.others) })}</li>}
    </ul>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}

function Notes({ title, lines }: { title: string; lines: readonly string[] }) {
  if (lines.length === 0) return null;
  return (
    <div className={styles.notes}>
      <h3>{title}</h3>
      <ul>{lines.map((line) => <li key={line}>{line}</li>)}</ul>
    </div>
  );
}
