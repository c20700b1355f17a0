import { useTexts } from "../../i18n";
import { DataTable } from "../../ui/DataTable";
import { ErrorBox } from "../../ui/ErrorBox";
import { Panel } from "../../ui/Panel";
import { Time } from "../../ui/Time";
import styles from "./Policy.module.css";
import { useRevisions } from "./queries";
import { text } from "./texts";

export function Revisions() {
  const t = useTexts(text);
  const revisions = useRevisions();
  const rows = revisions.data?.items ?? [];
  return (
    <Panel title={t("revisions")}>
      {revisions.error && <ErrorBox error={revisions.error} />}
      {revisions.data && rows.length === 0 && <p className={styles.since}>{t("noRevisions")}</p>}
      {rows.length > 0 && (
        <DataTable
          label={t("revisions")} rows={rows} rowKey={(row) => row.revision}
          columns={[
            { name: t("revision"), isHead: true, cell: (row) => row.revision },
            { name: t("when"), cell: (row) => <Time at_s={row.at_s} /> },
            { name: t("by"), cell: (row) => row.by },
            { name: t("settings"), isText: true, cell: (row) => <code>{asText(row.settings)}</code> },
            { name: t("note"), isText: true, cell: (row) => row.note },
          ]}
        />
      )}
    </Panel>
  );
}

function asText(settings: Record<string, unknown>): string {
  return Object.entries(settings)
    .map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : String(value)}`)
    .join(" ");
}
