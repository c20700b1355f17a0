import { useTexts } from "../../i18n";
import { count, percent } from "../../i18n/format";
import { DataTable } from "../../ui/DataTable";
import { Panel } from "../../ui/Panel";
import styles from "./Interference.module.css";
import type { CardTables } from "./shades";
import { text } from "./texts";

const KINDS = ["splits", "triples", "running"] as const;

export function Errors({ errors }: { errors: CardTables["errors"] }) {
  const say = useTexts(text);
  const rows = KINDS.flatMap((kind) => (errors[kind] ? [{ kind, ...errors[kind] }] : []));
  if (rows.length === 0 && !errors.words) return null;
  return (
    <Panel title={say("errors")} note={say("errorsNote")}>
      {rows.length > 0 && (
        <DataTable
          label={say("errors")} rows={rows} rowKey={(row) => row.kind}
          columns={[
            { name: say("what"), isHead: true, cell: (row) => say(`errors.${row.kind}`) },
            { name: say("count"), isNumber: true, cell: (row) => count(row.count) },
            { name: say("median"), isNumber: true, cell: (row) => fine(row.median) },
            { name: say("p90"), isNumber: true, cell: (row) => fine(row.p90) },
            { name: say("mean"), isNumber: true, cell: (row) => fine(row.mean) },
            { name: say("bias"), isNumber: true, cell: (row) => `${row.bias > 0 ? "+" : ""}${fine(row.bias)}` },
          ]}
        />
      )}
      <p className={styles.note}>{errors.words}</p>
    </Panel>
  );
}

/** Small errors with a decimal: 0.004 is not nothing. */
function fine(ratio: number): string {
  return Math.abs(ratio) < 0.1 ? `${(ratio * 100).toFixed(1)}%` : percent(ratio);
}
