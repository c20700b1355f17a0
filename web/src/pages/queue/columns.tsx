import { Link } from "wouter";
import { mayAct, type Me } from "../../app/rights";
import type { Say } from "../../i18n";
import { clock, count, fromNow, instant } from "../../i18n/format";
import { gpusInFull, gpusOf } from "../../ui/gpus";
import { StateBadge } from "../../ui/StateBadge";
import type { Col } from "../../ui/VirtualTable";
import styles from "./Queue.module.css";
import { PRIORITY_NAMES, type Row, startRange } from "./rows";
import type { text } from "./texts";

type T = Say<keyof (typeof text)["en"]>;

export function columnsOf(say: T, me: Me, now_s: number, onAct: (row: Row) => void): Col<Row>[] {
  const col = (name: string, width: string, cell: Col<Row>["cell"], more: Partial<Col<Row>> = {}): Col<Row> => ({
    name, width, cell, title: say(`col.${name}` as "col.name"), isSortable: true, ...more,
  });
  return [
    col("position", "52px", (row) => (row.position == null ? "" : count(row.position)), { isNumber: true }),
    col("name", "minmax(120px, 1.6fr)", (row) => <Name row={row} />),
    col("state", "86px", (row) => <StateBadge state={row.state} />),
    col("reason", "minmax(120px, 2.4fr)", (row) => <Reason text={row.reason?.message ?? row.cause} />, { isWideOnly: true }),
    col("eta", "minmax(110px, 1fr)", (row) => <Starts row={row} say={say} now_s={now_s} />, { isWideOnly: true }),
    col("gpus", "84px", (row) => <span title={row.share ? gpusInFull(row) : undefined}>{gpusOf(row)}</span>, { isNumber: true, isWideOnly: true }),
    col("priority", "66px", (row) => <Priority name={row.priority} say={say} />, { isWideOnly: true }),
    col("tenant", "minmax(64px, .7fr)", (row) => row.tenant, { isWideOnly: true }),
    col("user", "minmax(64px, .7fr)", (row) => row.user, { isWideOnly: true }),
    col("submitted", "96px", (row) => <span title={instant(row.submitted_s)}>{fromNow(Math.min(row.submitted_s, now_s), now_s)}</span>, { isWideOnly: true }),
    col("actions", "34px", (row) => mayAct(me, row) && (
      <button type="button" className={styles.act} aria-label={say("act", { name: row.name || row.id })} onClick={() => onAct(row)}>⋯</button>
    ), { isSortable: false, isTitleHidden: true }),
  ];
}

/** On a phone the reason has no column of its own: it stands below the name. */
function Name({ row }: { row: Row }) {
  return (
    <>
      <Link className={styles.name} href={`/jobs/${row.id}`}>{row.name || row.id}</Link>
      <span className={styles.below} aria-hidden="true">{row.reason?.message ?? row.cause}</span>
    </>
  );
}

function Reason({ text: words }: { text: string }) {
  return <span className={styles.reason} title={words}>{words}</span>;
}

function Priority({ name, say }: { name: string; say: T }) {
  const known = PRIORITY_NAMES.find((one) => one === name);
  return <span data-priority={name} className={styles.priority}>{known ? say(`priority.${known}`) : name}</span>;
}

/** When it started; of who waits the forecast, from the middle to the high end. */
function Starts({ row, say, now_s }: { row: Row; say: T; now_s: number }) {
  if (row.started_s != null) return <span title={instant(row.started_s)}>{fromNow(row.started_s, now_s)}</span>;
  const { from_s, to_s } = startRange(row);
  if (from_s == null && to_s == null) return <span className={styles.quiet}>–</span>;
  const told = (at_s?: number | null) => (at_s == null ? "–" : instant(at_s));
  const title = say("etaNote", { eta: told(row.eta_s), high: told(row.eta_high_s), promised: told(row.promised_s) });
  return <span title={title}>{startText(from_s, to_s, say, now_s)}</span>;
}

function startText(from_s: number | null, to_s: number | null, say: T, now_s: number): string {
  if (from_s == null) return say("promised", { when: clock(to_s!, now_s) });
  if (to_s == null) return say("eta", { when: clock(from_s, now_s) });
  return say("range", { from: clock(from_s, now_s), to: clock(to_s, now_s) });
}
