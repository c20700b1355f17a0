// Builds, filters and sorts the rows of the table. Plain functions, because every update processes up to ten thousand
// rows.
import type { Schemas } from "../../api/client";

export type Queued = Schemas["QueuedView"];
export type Row = Schemas["JobView"] &
  Partial<Pick<Queued, "position" | "eta_s" | "eta_high_s" | "promised_s" | "reason">> &
  Partial<Pick<Schemas["RunningView"], "hang_warnings">>;
export type Column = "position" | "name" | "state" | "reason" | "eta" | "gpus" | "priority" | "tenant" | "user" | "submitted";

export interface Filter {
  text: string;
  state: string;
  tenant: string;
  user: string;
}
export interface Sorting {
  by: Column;
  isDown: boolean;
}
export const NO_FILTER: Filter = { text: "", state: "", tenant: "", user: "" };
export const AS_QUEUED: Sorting = { by: "position", isDown: false };

export interface QueueResponses {
  running: readonly Row[];
  held: readonly Row[];
  /** The first rows, up to date. */
  head: readonly Row[];
  /** All rows, older than the others. */
  all: readonly Row[];
  /** Jobs that ended since `all` was fetched, from events. */
  ended: ReadonlySet<string>;
}

/** Running jobs, then pending jobs in order, then held jobs. Each job appears once, from the newest response. */
export function joined({ running, held, head, all, ended }: QueueResponses): Row[] {
  const seen = new Set<string>();
  const rows: Row[] = [];
  for (const part of [running, head, held, all])
    for (const row of part) {
      if (seen.has(row.id) || (ended.has(row.id) && part === all)) continue;
      seen.add(row.id);
      rows.push(row);
    }
  // `held` precedes `all` above because it is newer; in the table it comes last.
  return held.length ? [...rows.filter((row) => row.state !== "held"), ...rows.filter((row) => row.state === "held")] : rows;
}

/** Why the job does not run, or what hang detection warns about if it does. */
export function reasonOf(row: Row): string {
  const warnings = row.hang_warnings ?? [];
  if (warnings.length) return warnings.map((one) => `${one.rule}: ${one.message}`).join("; ");
  return row.reason?.message ?? row.cause;
}

const haystacks = new WeakMap<Row, string>();

function haystack(row: Row): string {
  let text = haystacks.get(row);
  if (text === undefined) {
    text = `${row.name}\n${row.id}\n${row.user}\n${row.tenant}\n${row.queue}\n${reasonOf(row)}`.toLowerCase();
    haystacks.set(row, text);
  }
  return text;
}

/** Every word must match one of the texts of the row. */
export function filtered(rows: readonly Row[], filter: Filter): Row[] {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter(
    (row) =>
      (!filter.state || row.state === filter.state) &&
      (!filter.tenant || row.tenant === filter.tenant) &&
      (!filter.user || row.user === filter.user) &&
      words.every((word) => haystack(row).includes(word)),
  );
}

/** Named priorities; others are integers. */
const PRIORITIES: Record<string, number> = { low: -1000, normal: 0, high: 1000, urgent: 1_000_000 };
export const PRIORITY_NAMES = ["low", "normal", "high", "urgent"] as const;

const names = new WeakMap<Row, string>();

/** Sort key in which train-2 precedes train-10. Computed once per row, because a numeric collator is much slower. */
function natural(row: Row): string {
  let key = names.get(row);
  if (key === undefined) {
    key = (row.name || row.id).toLowerCase().replace(/\d+/g, (digits) => digits.padStart(12, "0"));
    names.set(row, key);
  }
  return key;
}

const KEYS: Record<Exclude<Column, "position">, (row: Row) => string | number> = {
  name: natural,
  state: (row) => row.state,
  reason: (row) => row.reason?.message ?? row.cause,
  eta: (row) => row.started_s ?? row.eta_s ?? row.promised_s ?? Number.MAX_VALUE,
  gpus: (row) => row.gpus,
  priority: (row) => PRIORITIES[row.priority] ?? Number(row.priority),
  tenant: (row) => row.tenant,
  user: (row) => row.user,
  submitted: (row) => row.submitted_s,
};

/** For pending jobs: from the median of the forecast to its P90 or the reservation. Ranges below a minute have no end.
 * A reserved start that the forecast is past has no meaning any more. */
export function startRange(row: Row): { from_s: number | null; to_s: number | null } {
  const from_s = row.eta_s ?? null;
  const to_s = row.eta_high_s ?? row.promised_s ?? null;
  return { from_s, to_s: from_s !== null && to_s !== null && to_s - from_s < 60 ? null : to_s };
}

/** Equal rows stay in the order of the queue. */
export function sorted(rows: readonly Row[], sorting: Sorting): readonly Row[] {
  if (sorting.by === "position") return sorting.isDown ? rows.toReversed() : rows;
  const key = KEYS[sorting.by];
  const keyed = rows.map((row) => ({ row, key: key(row) }));
  const sign = sorting.isDown ? -1 : 1;
  keyed.sort((a, b) => (a.key < b.key ? -sign : a.key > b.key ? sign : 0));
  return keyed.map((entry) => entry.row);
}

/** The first click sorts ascending, the second descending, the third restores the order of the queue. */
export function nextSorting(now: Sorting, by: Column): Sorting {
  if (now.by !== by) return { by, isDown: false };
  return now.isDown ? AS_QUEUED : { by, isDown: true };
}
