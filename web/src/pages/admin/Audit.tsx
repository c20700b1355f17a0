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
interface Wanted {
  actor?: string;
  action?: string;
  target?: string;
}

const PAGE = 50;
const PARTS = ["actor", "action", "target"] as const;

/** Who changed what, newest first, a page at a time. */
export function Audit() {
  const say = useTexts(text);
  const [wanted, setWanted] = useState<Wanted>({});
  const audit = useInfiniteQuery({
    queryKey: ["audit", wanted],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam }) =>
      need(api.GET("/api/v1/audit", { params: { query: { ...wanted, limit: PAGE, ...(pageParam ? { cursor: pageParam } : {}) } } })),
    getNextPageParam: (page) => page.next,
  });
  const rows = audit.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Panel title={say("audit")}>
      <Filter onWanted={setWanted} />
      {audit.error && <ErrorBox error={audit.error} onRetry={() => void audit.refetch()} />}
      {audit.data && rows.length === 0 && <p className={styles.pale}>{say("noAudit")}</p>}
      {rows.length > 0 && (
        <DataTable
          label={say("audit")} rows={rows} rowKey={(one) => one.id}
          columns={[
            { name: say("when"), cell: (one) => <time className={styles.time} dateTime={new Date(one.at_s * 1000).toISOString()}>{instant(one.at_s)}</time> },
            { name: say("actor"), cell: (one) => one.actor },
            { name: say("action"), cell: (one) => <code>{one.action}</code> },
            { name: say("target"), cell: (one) => <Target line={one} /> },
            { name: say("data"), isText: true, cell: (one) => <span className={styles.details}>{inWords(one.data)}</span> },
          ]}
        />
      )}
      {audit.hasNextPage && <div><Button disabled={audit.isFetching} onClick={() => void audit.fetchNextPage()}>{say("more")}</Button></div>}
    </Panel>
  );
}

function Filter({ onWanted }: { onWanted: (wanted: Wanted) => void }) {
  const say = useTexts(text);
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const typed = new FormData(event.currentTarget);
    onWanted(Object.fromEntries(PARTS.map((part) => [part, String(typed.get(part) ?? "").trim()]).filter(([, value]) => value)));
  };
  return (
    <form className={styles.filter} role="search" onSubmit={send} onReset={() => onWanted({})}>
      <Fields>
        {PARTS.map((part) => (
          <Field key={part} label={say(part)}>
            {(given) => <input {...given} name={part} autoComplete="off" placeholder={part === "action" ? "policy.set" : ""} />}
          </Field>
        ))}
      </Fields>
      <div>
        <Button type="submit">{say("filter")}</Button> <Button type="reset" kind="quiet">{say("clear")}</Button>
      </div>
    </form>
  );
}

function Target({ line }: { line: Line }) {
  if (!line.action.startsWith("job.")) return <>{line.target}</>;
  return <Link href={`/jobs/${line.target}`}>{line.target}</Link>;
}

function inWords(data: unknown): string {
  if (data === null || typeof data !== "object") return data == null ? "" : String(data);
  return Object.entries(data)
    .filter(([, value]) => value !== null && value !== "")
    .map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : String(value)}`)
    .join(", ");
}
