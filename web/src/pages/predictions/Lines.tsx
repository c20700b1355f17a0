import { useTexts } from "../../i18n";
import { count, percent, span } from "../../i18n/format";
import { DataTable } from "../../ui/DataTable";
import { Panel } from "../../ui/Panel";
import styles from "./Predictions.module.css";
import type { Series } from "./sums";
import { text } from "./texts";
import { Bias } from "./WholeView";

export function Lines({ lines, isTruncated }: { lines: Series["lines"]; isTruncated: boolean }) {
  const say = useTexts(text);
  return (
    <Panel title={say("bySource")}>
      <DataTable
        label={say("bySource")} rows={lines} rowKey={(row) => `${row.tenant}\n${row.source}`}
        columns={[
          { name: say("tenant"), isHead: true, cell: (row) => row.tenant },
          { name: say("source"), cell: (row) => row.source },
          { name: say("count"), isNumber: true, cell: (row) => count(row.count) },
          { name: say("cut"), isNumber: true, cell: (row) => count(row.cut) },
          { name: say("median"), isNumber: true, cell: (row) => (row.median_ratio === null ? "–" : `± ${percent(row.median_ratio)}`) },
          { name: say("mean"), isNumber: true, cell: (row) => (row.mean_error_s === null ? "–" : span(row.mean_error_s)) },
          { name: say("p50"), isNumber: true, cell: (row) => percent(row.within_p50) },
          { name: say("p90"), isNumber: true, cell: (row) => percent(row.within_p90) },
          { name: say("p99"), isNumber: true, cell: (row) => percent(row.within_p99) },
          { name: say("bias"), cell: (row) => <Bias of={row.bias} /> },
        ]}
      />
      <p className={styles.note}>{say("cutNote")} {isTruncated && say("truncated")}</p>
    </Panel>
  );
}
