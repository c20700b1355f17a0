import { type KeyboardEvent, useDeferredValue, useMemo, useState } from "react";
import { Link } from "wouter";
import { mayAct, useCurrentUser } from "../../app/permissions";
import { useTexts } from "../../i18n";
import { count } from "../../i18n/format";
import { Button } from "../../ui/Button";
import { Empty } from "../../ui/Empty";
import { ErrorBox } from "../../ui/ErrorBox";
import { Loading } from "../../ui/Loading";
import { PageHead } from "../../ui/PageHead";
import { useNow } from "../../ui/Time";
import { useIsNarrow } from "../../ui/useIsNarrow";
import { VirtualTable } from "../../ui/VirtualTable";
import { ActionDialog, type Step } from "./ActionDialog";
import { columnsOf } from "./columns";
import { Ended } from "./Ended";
import { FilterBar } from "./FilterBar";
import styles from "./Queue.module.css";
import { AS_QUEUED, type Column, filtered, nextSorting, NO_FILTER, type Row, sorted } from "./rows";
import { text } from "./texts";
import { useRows } from "./useRows";

export default function QueuePage() {
  const t = useTexts(text);
  const me = useCurrentUser();
  const now_s = useNow();
  const row_px = useIsNarrow() ? 56 : 38;
  const { rows, counts, error, isLoading, refetch } = useRows();
  const [filter, setFilter] = useState(NO_FILTER);
  const [sorting, setSorting] = useState(AS_QUEUED);
  const [dialog, setDialog] = useState<{ row: Row; step: Step } | null>(null);
  const deferred = useDeferredValue(filter); // typing stays fast while thousands of rows are filtered
  const shown = useMemo(() => sorted(filtered(rows, deferred), sorting), [rows, deferred, sorting]);
  const tenants = useMemo(() => [...new Set(rows.map((row) => row.tenant))].sort(), [rows]);
  const columns = columnsOf(t, me, now_s, (row) => setDialog({ row, step: "menu" }));

  function pressed(row: Row, event: KeyboardEvent) {
    const step = event.ctrlKey || event.metaKey || event.altKey ? null : stepOf(event.key, row);
    if (!step || !mayAct(me, row)) return;
    event.preventDefault();
    setDialog({ row, step });
  }

  const all = Object.values(counts ?? {}).reduce((sum, value) => sum + value, 0);
  const status = rows.length < all ? t("loaded", { n: count(rows.length), all: count(all) }) : t("shown", { n: count(shown.length) });
  return (
    <>
      <PageHead title={t("title")} note={counts && t("counts", { pending: count(counts.pending ?? 0), running: count(counts.running ?? 0), held: count(counts.held ?? 0) })} />
      <FilterBar filter={filter} onChange={setFilter} tenants={tenants} me={me.user} shown={status} counts={counts} />
      {error && rows.length === 0 && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {isLoading && <Loading />}
      {!isLoading && !error && rows.length === 0 && <Empty text={t("empty")} action={<Link href="/submit">{t("emptySubmit")}</Link>} />}
      {rows.length > 0 && shown.length === 0 && (
        <Empty text={t("noMatch")} action={<Button onClick={() => setFilter(NO_FILTER)}>{t("clear")}</Button>} />
      )}
      {shown.length > 0 && (
        <VirtualTable
          label={t("table")} rows={shown} columns={columns} idOf={idOf} row_px={row_px} sort={sorting} onRowKey={pressed}
          onSort={(by) => setSorting(nextSorting(sorting, by as Column))}
        />
      )}
      {shown.length > 0 && <p className={styles.keys}>{t("keys")}</p>}
      <Ended />
      {dialog && <ActionDialog row={dialog.row} step={dialog.step} onClose={() => setDialog(null)} />}
    </>
  );
}

const idOf = (row: Row) => row.id;

function stepOf(key: string, row: Row): Step | null {
  switch (key.toLowerCase()) {
    case "c":
      return "cancel";
    case "p":
      return "menu";
    case "h":
      return row.state === "held" ? "release" : row.state === "pending" ? "hold" : null;
    default:
      return null;
  }
}
