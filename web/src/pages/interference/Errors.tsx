import { useTexts } from "../../i18n";
import { count, percent } from "../../i18n/format";
import { DataTable } from "../../ui/DataTable";
import { Panel } from "../../ui/Panel";
import styles from "./Interference.module.css";
import type { CardTables } from "./shades";
import { text } from "./texts";

const KINDS = ["splits", "triples", "running"] as const;

export function Errors({ errors }: { errors: CardTables["errors"] }) {
  const t = useTexts(text);
  const rows = KINDS.flatMap((kind) => (errors[kind] ? [{ kind, ...errors[kind] }] : []));
  if (rows.length === 0 && !errors.words) return null;
  return (
    <Panel title={t("errors")} note={t("errorsNote")}>
      {rows.length > 0 && (
        <DataTable
          label={t("errors")} rows={rows} rowKey={(row) => row.kind}
          columns={[
            { name: t("what"), isHead: true, cell: (row) => t(`errors.${row.kind}`) },
            { name: t("count"), isNumber: true, cell: (row) => count(row.count) },
            { name: t("median"), isNumber: true, cell: (row) => precise(row.median) },
            { name: t("p90"), isNumber: true, cell: (row) => precise(row.p90) },
            { name: t("mean"), isNumber: true, cell: (row) => precise(row.mean) },
            { name: t("bias"), isNumber: true, cell: (row) => `${row.bias > 0 ? "+" : ""}${precise(row.bias)}` },
          ]}
        />
      )}
      <p className={styles.note}>{errors.words}</p>
    </Panel>
  );
}

/** A percentage, with one decimal below 10 %. */
function precise(ratio: number): string {
  return Math.abs(ratio) < 0.1 ? `${(ratio * 100).toFixed(1)}%` : percent(ratio);
}
