import { Link } from "wouter";
import { mayAct, type Me } from "../../app/permissions";
import type { Translate } from "../../i18n";
import { clock, count, fromNow, instant } from "../../i18n/format";
import { gpusInFull, gpusInShort } from "../../ui/gpus";
import { StateBadge } from "../../ui/StateBadge";
import type { Col } from "../../ui/VirtualTable";
import styles from "./Queue.module.css";
import { PRIORITY_NAMES, reasonOf, type Row, startRange } from "./rows";
import type { text as queueText } from "./texts";

type Translator = Translate<keyof (typeof queueText)["en"]>;

export function columnsOf(t: Translator, me: Me, now_s: number, onAct: (row: Row) => void): Col<Row>[] {
  const col = (name: string, width: string, cell: Col<Row>["cell"], more: Partial<Col<Row>> = {}): Col<Row> => ({
    name, width, cell, title: t(`col.${name}` as "col.name"), isSortable: true, ...more,
  });
  return [
    col("position", "52px", (row) => (row.position == null ? "" : count(row.position)), { isNumber: true }),
    col("name", "minmax(120px, 1.6fr)", (row) => <Name row={row} />),
    col("state", "86px", (row) => <StateBadge state={row.state} hangs={row.hang_warnings} />),
    col("reason", "minmax(120px, 2.4fr)", (row) => <Reason text={reasonOf(row)} />, { isWideOnly: true }),
    col("eta", "minmax(110px, 1fr)", (row) => <Starts row={row} t={t} now_s={now_s} />, { isWideOnly: true }),
    col("gpus", "84px", (row) => <span title={row.share ? gpusInFull(row) : undefined}>{gpusInShort(row)}</span>, { isNumber: true, isWideOnly: true }),
    col("priority", "66px", (row) => <Priority name={row.priority} t={t} />, { isWideOnly: true }),
    col("tenant", "minmax(64px, .7fr)", (row) => row.tenant, { isWideOnly: true }),
    col("user", "minmax(64px, .7fr)", (row) => row.user, { isWideOnly: true }),
    col("submitted", "96px", (row) => <span title={instant(row.submitted_s)}>{fromNow(Math.min(row.submitted_s, now_s), now_s)}</span>, { isWideOnly: true }),
    col("actions", "34px", (row) => mayAct(me, row) && (
      <button type="button" className={styles.act} aria-label={t("act", { name: row.name || row.id })} onClick={() => onAct(row)}>⋯</button>
    ), { isSortable: false, isTitleHidden: true }),
  ];
}

/** On a phone the reason is shown below the name, because it has no column there. */
function Name({ row }: { row: Row }) {
  return (
    <>
      <Link className={styles.name} href={`/jobs/${row.id}`}>{row.name || row.id}</Link>
      <span className={styles.below} aria-hidden="true">{reasonOf(row)}</span>
    </>
  );
}

function Reason({ text }: { text: string }) {
  return <span className={styles.reason} title={text}>{text}</span>;
}

function Priority({ name, t }: { name: string; t: Translator }) {
  const known = PRIORITY_NAMES.find((candidate) => candidate === name);
  return <span data-priority={name} className={styles.priority}>{known ? t(`priority.${known}`) : name}</span>;
}

/** Start time; for pending jobs the forecast from the median to P90. */
function Starts({ row, t, now_s }: { row: Row; t: Translator; now_s: number }) {
  if (row.started_s != null) return <span title={instant(row.started_s)}>{fromNow(row.started_s, now_s)}</span>;
  const { from_s, to_s } = startRange(row);
  if (from_s == null && to_s == null) return <span className={styles.quiet}>{row.state === "pending" ? t("unknown") : "–"}</span>;
  const asText = (at_s?: number | null) => (at_s == null ? "–" : instant(at_s));
  const title = t("etaNote", { eta: asText(row.eta_s), high: asText(row.eta_high_s), reserved: asText(row.promised_s) });
  return <span title={title}>{startText(from_s, to_s, t, now_s)}</span>;
}

function startText(from_s: number | null, to_s: number | null, t: Translator, now_s: number): string {
  if (from_s == null) return t("reserved", { when: clock(to_s!, now_s) });
  if (to_s == null) return t("eta", { when: clock(from_s, now_s) });
  return t("range", { from: clock(from_s, now_s), to: clock(to_s, now_s) });
}
