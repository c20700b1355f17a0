// Texts for states, events and causes that the service reports as codes.
import type { Translate } from "../../i18n";
import { clock, span } from "../../i18n/format";
import { isOver, isWaiting, type Job, type StoryLine, type When } from "./queries";
import type { Key } from "./texts";

const SINCE_2001_US = 1e15; // larger numbers of microseconds are instants, smaller ones spans
const US = 1e6;

/** "14:20", or "14:20–14:40" if the two differ by at least a minute. */
export function range(low_s: number, high_s: number | null | undefined): string {
  const [low, high] = [clock(low_s), high_s == null ? "" : clock(high_s)];
  return high === "" || high === low ? low : `${low}–${high}`;
}

/** The status sentence at the top of the page. */
export function statusText(job: Job, when: When | undefined, now_s: number, t: Translate<Key>): string {
  if (isWaiting(job)) return waiting(job, when, t);
  if (isOver(job)) return ended(job, t);
  const ran = t("ranFor", { span: span(now_s - (job.started_s ?? now_s)) });
  const end = when?.end;
  return end?.mid_s == null ? ran : `${ran} ${t("endsAbout", { when: range(end.mid_s, end.high_s) })}`;
}

function waiting(job: Job, when: When | undefined, t: Translate<Key>): string {
  if (job.state === "held") return t("isHeld");
  if (!when) return "";
  const position = when.position == null ? "" : t("position", { n: when.position });
  const start = when.start_s == null ? t("startUnknown") : t("startsAbout", { when: range(when.start_s, when.high_s) });
  const reserved = when.promised_s == null ? "" : reservedText(when.promised_s, when.start_s, t);
  return [position, start, reserved].filter(Boolean).join(" ");
}

/** A start that is forecast after the reserved one is said to be late. */
function reservedText(promised_s: number, start_s: number | null, t: Translate<Key>): string {
  const late_s = (start_s ?? promised_s) - promised_s;
  return late_s < 1 ? t("reservedFor", { when: clock(promised_s) }) : t("reservedLate", { when: clock(promised_s), span: span(late_s) });
}

function ended(job: Job, t: Translate<Key>): string {
  if (job.ended_s == null) return "";
  if (job.started_s == null) return t("endedUnstarted", { when: clock(job.ended_s) });
  return t("endedAfter", { when: clock(job.ended_s), span: span(job.ended_s - job.started_s) });
}

const KINDS: ReadonlySet<string> = new Set<Key>(["kind.promised", "kind.eta_moved", "kind.hung", "kind.recovered", "kind.changed", "kind.overrun"]);
const CAUSES: ReadonlySet<string> = new Set<Key>(["cause.next", "cause.backfill"]);

/** Text of an event that is more than a new state; otherwise empty. */
export function kindText(line: StoryLine, t: Translate<Key>): string {
  const key = `kind.${line.kind}`;
  if (KINDS.has(key)) return t(key as Key);
  return line.kind === line.state ? "" : line.kind.replaceAll("_", " ");
}

/** Cause and cards of an event; without a cause, all its data. */
export function causeText(line: StoryLine, t: Translate<Key>): string {
  const cause = CAUSES.has(`cause.${line.cause}`) ? t(`cause.${line.cause}` as Key) : line.cause;
  const carried = Object.entries((line.data ?? {}) as Record<string, unknown>);
  const data = carried.filter(([name]) => name === "cards" || !line.cause).map(([name, value]) => fact(name, value));
  return [cause, ...data].filter(Boolean).join(" · ");
}

function fact(name: string, value: unknown): string {
  if (name === "pids") return ""; // only meaningful on that machine
  if (name === "cards" && Array.isArray(value)) return value.join(", ");
  if (name.endsWith("_us") && typeof value === "number") {
    const text = value > SINCE_2001_US ? clock(value / US) : span(value / US);
    return `${name.slice(0, -3).replaceAll("_", " ")} ${text}`;
  }
  const plain = typeof value === "object" ? JSON.stringify(value) : String(value);
  return `${name.replaceAll("_", " ")} ${plain}`;
}

/** Cards of the latest attempt: the current ones, otherwise those of the last start. */
export function cardsOf(job: Job, story: readonly StoryLine[]): string[] {
  const now = job.placement.flatMap((place) => place.cards);
  if (now.length > 0) return [...new Set(now)];
  const start = story.findLast((line) => line.kind === "starting");
  const cards = (start?.data as { cards?: unknown } | null)?.cards;
  return Array.isArray(cards) ? [...new Set(cards.map(String))] : [];
}
