import { Link } from "wouter";
import type { Schemas } from "../../api/client";
import { type Translate, useTexts } from "../../i18n";
import { clock, count, span } from "../../i18n/format";
import { DataTable } from "../../ui/DataTable";
import { Panel } from "../../ui/Panel";
import styles from "./Predictions.module.css";
import { text } from "./texts";

type Starts = Schemas["StartsView"];
type Late = Schemas["LateStart"];
type Key = keyof typeof text.en;

/** Promised starts: kept, late, by how much and why. Beside it the true delay of heads of the queue. */
export function Promises({ starts }: { starts: Starts }) {
  const t = useTexts(text);
  const { heads } = starts;
  return (
    <Panel title={t("promises")}>
      {starts.count === 0 && <p className={styles.note}>{t("promisesNone")}</p>}
      {(starts.count > 0 || heads.count > 0) && (
        <dl className={styles.numbers}>
          <div><dt>{t("promisesKept")}</dt><dd>{count(starts.kept)}</dd></div>
          <div><dt>{t("promisesLate")}</dt><dd>{count(starts.late)}</dd></div>
          <div><dt>{t("promisesMedian")}</dt><dd>{spanOr(starts.median_s)}</dd></div>
          <div><dt>{t("promisesWorst")}</dt><dd>{spanOr(starts.worst_s)}</dd></div>
          <div><dt>{t("headDelayed")}</dt><dd>{`${count(heads.delayed)} / ${count(heads.count)}`}</dd></div>
          <div><dt>{t("headWorst")}</dt><dd>{spanOr(heads.worst_s)}</dd></div>
        </dl>
      )}
      {starts.late > 0 && <LateTables starts={starts} />}
      <p className={styles.note}>{t("promisesNote")}</p>
    </Panel>
  );
}

function LateTables({ starts }: { starts: Starts }) {
  const t = useTexts(text);
  return (
    <>
      <DataTable
        label={t("causeList")} rows={starts.causes} rowKey={(row) => row.cause}
        columns={[
          { name: t("why"), isHead: true, cell: (row) => causeText(row.cause, t) },
          { name: t("starts"), isNumber: true, cell: (row) => count(row.count) },
          { name: t("medianLate"), isNumber: true, cell: (row) => spanOr(row.median_s) },
          { name: t("worstLate"), isNumber: true, cell: (row) => spanOr(row.worst_s) },
        ]}
      />
      <DataTable
        label={t("lateList")} rows={starts.latest} rowKey={(row) => `${row.job}\n${row.started_s}`}
        columns={[
          { name: t("job"), isHead: true, cell: (row) => <Link href={`/jobs/${row.job}`}>{row.name || row.job}</Link> },
          { name: t("tenant"), cell: (row) => row.tenant },
          { name: t("promisedFor"), cell: (row) => (row.promised_s === null ? "–" : clock(row.promised_s)) },
          { name: t("late"), isNumber: true, cell: (row) => span(row.late_s) },
          { name: t("headDelay"), isNumber: true, cell: (row) => spanOr(row.head_delay_s) },
          { name: t("why"), isText: true, cell: (row) => <Why row={row} t={t} /> },
        ]}
      />
    </>
  );
}

function Why({ row, t }: { row: Late; t: Translate<Key> }) {
  if (!row.cause_job) return <>{causeText(row.cause, t)}</>;
  const who = t("blamed", { job: row.cause_job.slice(-8), user: row.cause_user ?? "", tenant: row.cause_tenant ?? "" });
  return <>{causeText(row.cause, t)}: <Link href={`/jobs/${row.cause_job}`}>{who}</Link></>;
}

function causeText(cause: string, t: Translate<Key>): string {
  const key = `cause.${cause}`;
  return key in text.en ? t(key as Key) : cause;
}

function spanOr(seconds: number | null): string {
  return seconds === null ? "–" : span(seconds);
}
