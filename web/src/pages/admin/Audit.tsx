import { useInfiniteQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { Link } from "wouter";
import { api, need, type Schemas } from "../../api/client";
import { useTexts } from "../../i18n";
import { instant } from "../../i18n/format";
import { Button } from "../../ui/Button";
import { DataTable } from "../../ui/DataTable";
import { ErrorBox } from "../../ui/ErrorBox";
import { Field, Fields } from "../../ui/Field";
import { Panel } from "../../ui/Panel";
import styles from "./Admin.module.css";
import { text } from "./texts";

type Line = Schemas["AuditLine"];
interface AuditFilter {
  actor?: string;
  action?: string;
  target?: string;
}

const PAGE = 50;
const FIELDS = ["actor", "action", "target"] as const;

/** The audit log, newest first, loaded page by page. */
export function Audit() {
  const t = useTexts(text);
  const [filter, setFilter] = useState<AuditFilter>({});
  const audit = useInfiniteQuery({
    queryKey: ["audit", filter],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam }) =>
      need(api.GET("/api/v1/audit", { params: { query: { ...filter, limit: PAGE, ...(pageParam ? { cursor: pageParam } : {}) } } })),
    getNextPageParam: (page) => page.next,
  });
  const rows = audit.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Panel title={t("audit")}>
      <Filter onFilter={setFilter} />
      {audit.error && <ErrorBox error={audit.error} onRetry={() => void audit.refetch()} />}
      {audit.data && rows.length === 0 && <p className={styles.pale}>{t("noAudit")}</p>}
      {rows.length > 0 && (
        <DataTable
          label={t("audit")} rows={rows} rowKey={(row) => row.id}
          columns={[
            { name: t("when"), cell: (row) => <time className={styles.time} dateTime={new Date(row.at_s * 1000).toISOString()}>{instant(row.at_s)}</time> },
            { name: t("actor"), cell: (row) => row.actor },
            { name: t("action"), cell: (row) => <code>{row.action}</code> },
            { name: t("target"), cell: (row) => <Target line={row} /> },
            { name: t("data"), isText: true, cell: (row) => <span className={styles.details}>{asText(row.data)}</span> },
          ]}
        />
      )}
      {audit.hasNextPage && <div><Button disabled={audit.isFetching} onClick={() => void audit.fetchNextPage()}>{t("more")}</Button></div>}
    </Panel>
  );
}

function Filter({ onFilter }: { onFilter: (filter: AuditFilter) => void }) {
  const t = useTexts(text);
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    onFilter(Object.fromEntries(FIELDS.map((field) => [field, String(form.get(field) ?? "").trim()]).filter(([, value]) => value)));
  };
  return (
    <form className={styles.filter} role="search" onSubmit={send} onReset={() => onFilter({})}>
      <Fields>
        {FIELDS.map((field) => (
          <Field key={field} label={t(field)}>
            {(control) => <input {...control} name={field} autoComplete="off" placeholder={field === "action" ? "policy.set" : ""} />}
          </Field>
        ))}
      </Fields>
      <div>
        <Button type="submit">{t("filter")}</Button> <Button type="reset" kind="quiet">{t("clear")}</Button>
      </div>
    </form>
  );
}

function Target({ line }: { line: Line }) {
  if (!line.action.startsWith("job.")) return <>{line.target}</>;
  return <Link href={`/jobs/${line.target}`}>{line.target}</Link>;
}

function asText(data: unknown): string {
  if (data === null || typeof data !== "object") return data == null ? "" : String(data);
  return Object.entries(data)
    .filter(([, value]) => value !== null && value !== "")
    .map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : String(value)}`)
    .join(", ");
}
