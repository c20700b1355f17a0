import { useTexts } from "../../i18n";
import { percent, span } from "../../i18n/format";
import { ErrorBox } from "../../ui/ErrorBox";
import { Panel } from "../../ui/Panel";
import { type Job, useWhen, useWhy } from "./queries";
import { text } from "./texts";
import styles from "./Why.module.css";

/** Reasons why the job is pending, each with its cure, and the accuracy of past start forecasts. */
export function Why({ job }: { job: Job }) {
  const t = useTexts(text);
  const why = useWhy(job);
  const accuracy = useWhen(job).data?.accuracy;
  return (
    <Panel title={t("why")}>
      {why.error && <ErrorBox error={why.error} />}
      {why.data?.reasons.length === 0 && job.state === "pending" && <p>{t("whyNothing")}</p>}
      {why.data?.reasons.length === 0 && job.state === "held" && <p>{t("isHeld")}</p>}
      <ul className={styles.reasons}>
        {why.data?.reasons.map((reason, n) => (
          <li key={`${reason.code}${n}`}>
            <strong>{reason.message}</strong>
            {reason.cure && <span>{reason.cure}</span>}
            {reason.who.length > 0 && <span>{reason.who.join(", ")}</span>}
          </li>
        ))}
        {why.data?.passed.map((one) => <li key={`passed ${one.job}`}><span>{t("passedBy", { job: one.message })}</span></li>)}
      </ul>
      {accuracy && accuracy.count > 0 && accuracy.within_ratio != null && (
        <p className={styles.record}>
          {t("accuracy", { n: accuracy.count, within: percent(accuracy.within_ratio), span: span(Math.abs(accuracy.median_error_s ?? 0)) })}
        </p>
      )}
    </Panel>
  );
}
