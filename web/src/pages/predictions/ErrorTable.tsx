import { useTexts } from "../../i18n";
import { count, percent, span } from "../../i18n/format";
import { DataTable } from "../../ui/DataTable";
import { Panel } from "../../ui/Panel";
import styles from "./Predictions.module.css";
import type { Series } from "./sums";
import { text } from "./texts";
import { Bias } from "./Summary";

/** Prediction errors, one row per tenant and source. `cut`: number of censored runs, which were stopped early. */
export function ErrorTable({ lines, isTruncated }: { lines: Series["lines"]; isTruncated: boolean }) {
  const t = useTexts(text);
  return (
    <Panel title={t("bySource")}>
      <DataTable
        label={t("bySource")} rows={lines} rowKey={(row) => `${row.tenant}\n${row.source}`}
        columns={[
          { name: t("tenant"), isHead: true, cell: (row) => row.tenant },
          { name: t("source"), cell: (row) => row.source },
          { name: t("count"), isNumber: true, cell: (row) => count(row.count) },
          { name: t("cut"), isNumber: true, cell: (row) => count(row.cut) },
          { name: t("median"), isNumber: true, cell: (row) => (row.median_ratio === null ? "–" : `± ${percent(row.median_ratio)}`) },
          { name: t("mean"), isNumber: true, cell: (row) => (row.mean_error_s === null ? "–" : span(row.mean_error_s)) },
          { name: t("p50"), isNumber: true, cell: (row) => percent(row.within_p50) },
          { name: t("p90"), isNumber: true, cell: (row) => percent(row.within_p90) },
          { name: t("p99"), isNumber: true, cell: (row) => percent(row.within_p99) },
          { name: t("bias"), cell: (row) => <Bias value={row.bias} /> },
        ]}
      />
      <p className={styles.note}>{t("cutNote")} {isTruncated && t("truncated")}</p>
    </Panel>
  );
}
