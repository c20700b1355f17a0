// What the service tells in codes, in words.
import type { Say } from "../../i18n";
import { clock, span } from "../../i18n/format";
import { isOver, isWaiting, type Job, type StoryLine, type When } from "./queries";
import type { Key } from "./texts";

const SINCE_2001_US = 1e15; // larger numbers of microseconds are instants, smaller ones spans
const US = 1e6;

/** "14:20", or "14:20–14:40" where the two differ to the minute. */
export function range(low_s: number, high_s: number | null | undefined): string {
  const [low, high] = [clock(low_s), high_s == null ? "" : clock(high_s)];
  return high === "" || high === low ? low : `${low}–${high}`;
}

/** The one sentence on top of the page: how it stands. */
export function standing(job: Job, when: When | undefined, now_s: number, say: Say<Key>): string {
  if (isWaiting(job)) return waiting(job, when, say);
  if (isOver(job)) return ended(job, say);
  const ran = say("ranFor", { span: span(now_s - (job.started_s ?? now_s)) });
  const end = when?.end;
  return end?.mid_s == null ? ran : `${ran} ${say("endsAbout", { when: range(end.mid_s, end.high_s) })}`;
}

function waiting(job: Job, when: When | undefined, say: Say<Key>): string {
  if (job.state === "held") return say("isHeld");
  if (!when) return "";
  const place = when.position == null ? "" : say("position", { n: when.position });
  const start = when.start_s == null ? say("startUnknown") : say("startsAbout", { when: range(when.start_s, when.high_s) });
  const promised = when.promised_s == null ? "" : say("promisedBy", { when: clock(when.promised_s) });
  return [place, start, promised].filter(Boolean).join(" ");
}

function ended(job: Job, say: Say<Key>): string {
  if (job.ended_s == null) return "";
  if (job.started_s == null) return say("endedUnstarted", { when: clock(job.ended_s) });
  return say("endedAfter", { when: clock(job.ended_s), span: span(job.ended_s - job.started_s) });
}

const KINDS: ReadonlySet<string> = new Set<Key>(["kind.promised", "kind.eta_moved", "kind.hung", "kind.recovered", "kind.changed", "kind.overrun"]);
const CAUSES: ReadonlySet<string> = new Set<Key>(["cause.next", "cause.backfill"]);

/** What happened, where it is more than a new state. */
export function kindWords(line: StoryLine, say: Say<Key>): string {
  const key = `kind.${line.kind}`;
  if (KINDS.has(key)) return say(key as Key);
  return line.kind === line.state ? "" : line.kind.replaceAll("_", " ");
}

/** Its cause and its cards; without a cause, whatever the event carries. */
export function causeWords(line: StoryLine, say: Say<Key>): string {
  const cause = CAUSES.has(`cause.${line.cause}`) ? say(`cause.${line.cause}` as Key) : line.cause;
  const carried = Object.entries((line.data ?? {}) as Record<string, unknown>);
  const data = carried.filter(([name]) => name === "cards" || !line.cause).map(([name, value]) => fact(name, value));
  return [cause, ...data].filter(Boolean).join(" · ");
}

function fact(name: string, value: unknown): string {
  if (name === "pids") return ""; // of no use elsewhere than on that machine
  if (name === "cards" && Array.isArray(value)) return value.join(", ");
  if (name.endsWith("_us") && typeof value === "number") {
    const told = value > SINCE_2001_US ? clock(value / US) : span(value / US);
    return `${name.slice(0, -3).replaceAll("_", " ")} ${told}`;
  }
  const plain = typeof value === "object" ? JSON.stringify(value) : String(value);
  return `${name.replaceAll("_", " ")} ${plain}`;
}

/** The cards of the latest attempt: those it is on, else those of its last start. */
export function cardsOf(job: Job, story: readonly StoryLine[]): string[] {
  const now = job.placement.flatMap((place) => place.cards);
  if (now.length > 0) return [...new Set(now)];
  const start = story.findLast((line) => line.kind === "starting");
  const cards = (start?.data as { cards?: unknown } | null)?.cards;
  return Array.isArray(cards) ? [...new Set(cards.map(String))] : [];
}
