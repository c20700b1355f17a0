import type { Schemas } from "../../api/client";
import { useTexts } from "../../i18n";
import { count, percent, span } from "../../i18n/format";
import { DataTable } from "../../ui/DataTable";
import { Panel } from "../../ui/Panel";
import styles from "./Predictions.module.css";
import { text } from "./texts";

/** How good the first start forecasts of jobs were that waited, by tenant. */
export function Waits({ waits }: { waits: Schemas["WaitsView"] }) {
  const t = useTexts(text);
  const rows = waits.tenants.length > 1 ? [...waits.tenants, { ...waits.total, key: t("all") }] : waits.tenants;
  return (
    <Panel title={t("waits")}>
      {rows.length === 0 ? <p className={styles.note}>{t("waitsNone")}</p> : (
        <DataTable
          label={t("waits")} rows={rows} rowKey={(row) => row.key}
          columns={[
            { name: t("tenant"), isHead: true, cell: (row) => row.key },
            { name: t("waited"), isNumber: true, cell: (row) => count(row.count) },
            { name: t("within10"), isNumber: true, cell: (row) => percent(row.within_10min) },
            { name: t("factor2"), isNumber: true, cell: (row) => percent(row.within_factor_2) },
            { name: t("p50"), isNumber: true, cell: (row) => percent(row.within_p50) },
            { name: t("p90"), isNumber: true, cell: (row) => percent(row.within_p90) },
            { name: t("waitError"), isNumber: true, cell: (row) => (row.median_error_s === null ? "–" : span(row.median_error_s)) },
            { name: t("waitMedian"), isNumber: true, cell: (row) => (row.median_wait_s === null ? "–" : span(row.median_wait_s)) },
          ]}
        />
      )}
      <p className={styles.note}>{t("waitsNote")}</p>
    </Panel>
  );
}
