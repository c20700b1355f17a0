import { useTexts } from "../../i18n";
import { DataTable } from "../../ui/DataTable";
import { ErrorBox } from "../../ui/ErrorBox";
import { Panel } from "../../ui/Panel";
import { Time } from "../../ui/Time";
import styles from "./Policy.module.css";
import { useRevisions } from "./queries";
import { text } from "./texts";

export function Revisions() {
  const say = useTexts(text);
  const revisions = useRevisions();
  const rows = revisions.data?.items ?? [];
  return (
    <Panel title={say("revisions")}>
      {revisions.error && <ErrorBox error={revisions.error} />}
      {revisions.data && rows.length === 0 && <p className={styles.since}>{say("noRevisions")}</p>}
      {rows.length > 0 && (
        <DataTable
          label={say("revisions")} rows={rows} rowKey={(row) => row.revision}
          columns={[
            { name: say("revision"), isHead: true, cell: (row) => row.revision },
            { name: say("when"), cell: (row) => <Time at_s={row.at_s} /> },
            { name: say("by"), cell: (row) => row.by },
            { name: say("settings"), isText: true, cell: (row) => <code>{inWords(row.settings)}</code> },
            { name: say("note"), isText: true, cell: (row) => row.note },
          ]}
        />
      )}
    </Panel>
  );
}

function inWords(settings: Record<string, unknown>): string {
  return Object.entries(settings)
    .map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : String(value)}`)
    .join(" ");
}
