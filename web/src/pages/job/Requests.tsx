import { useTexts } from "../../i18n";
import { count, gib } from "../../i18n/format";
import { DataTable } from "../../ui/DataTable";
import { Panel } from "../../ui/Panel";
import styles from "./Neighbours.module.css";
import type { Job } from "./queries";
import { text } from "./texts";

type Choice = Job["auto"][number];

/** What the service chose for the job beside what it used, and the answer of its estimator. */
export function Requests({ job }: { job: Job }) {
  const t = useTexts(text);
  if (job.auto.length === 0 && !job.estimator) return null;
  return (
    <Panel title={t("requests")}>
      {job.estimator && <p className={styles.note}>{estimatorText(job.estimator, t)}</p>}
      {job.auto.length > 0 && (
        <DataTable
          label={t("requests")} rows={job.auto} rowKey={(choice) => choice.field}
          columns={[
            { name: t("field"), isHead: true, cell: (choice) => <code>{choice.field}</code> },
            { name: t("chosen"), isNumber: true, cell: (choice) => choice.value ?? t("noLimit") },
            { name: t("used"), isNumber: true, cell: usedText },
            { name: t("source"), cell: (choice) => t(`from.${choice.source}` as keyof typeof text.en) },
            { name: t("why"), isText: true, cell: (choice) => choice.why },
          ]}
        />
      )}
    </Panel>
  );
}

function usedText(choice: Choice): string {
  if (choice.used === null) return "";
  return choice.field === "cpu" || choice.field === "gpus" ? count(Math.round(choice.used * 100) / 100) : `${gib(choice.used)} GiB`;
}

function estimatorText(estimator: NonNullable<Job["estimator"]>, t: ReturnType<typeof useTexts<keyof typeof text.en>>): string {
  if (estimator.state === "waiting") return t("estimatorRuns");
  if (estimator.warning) return t("estimatorFailed", { why: estimator.warning });
  const given = Object.entries(estimator.fields).map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : String(value)}`);
  return t(estimator.cached ? "estimatorCached" : "estimatorDone", { fields: given.join(", "), command: estimator.command });
}
