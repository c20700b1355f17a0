// Items of the chart: past and running attempts, reservations and planned starts, in one format.
import type { Schemas } from "../../api/client";

type Timeline = Schemas["TimelineView"];
export type Kind = "past" | "running" | "reserved" | "planned";

export interface Item {
  key: string;
  kind: Kind;
  /** Null for a job of another tenant. */
  job: string | null;
  name: string | null;
  owner: string;
  attempt: number;
  state: string;
  cards: readonly string[];
  gpus: number;
  share: number;
  start_s: number;
  /** Latest start, if it is uncertain. */
  startHigh_s: number | null;
  /** Actual or predicted end. */
  end_s: number;
  /** Latest end, if it is uncertain. */
  endHigh_s: number | null;
  /** The end is unknown. */
  isOpen: boolean;
  position: number | null;
  source: string;
}

export function itemsOf(timeline: Timeline): Item[] {
  const reserved = timeline.reservations.filter((reservation) => reservation.cards.length > 0);
  const isReserved = new Set(reserved.map(startKey));
  // The plan is slightly older than the rest. Jobs that started since are no longer planned.
  const isRunning = new Set(timeline.bars.filter((bar) => bar.end_s === null).map((bar) => bar.job));
  const isAhead = (entry: { job: string | null }) => entry.job === null || !isRunning.has(entry.job);
  return [
    ...timeline.planned.filter((entry) => entry.cards.length > 0 && isAhead(entry) && !isReserved.has(startKey(entry))).map((entry) => planned(entry, timeline.now_s)),
    ...reserved.map((entry) => reservation(entry, timeline)),
    ...timeline.bars.map((entry) => bar(entry, timeline.now_s)),
  ];
}

/** Key that matches a reservation with the planned start of the same job. Jobs of other tenants have no id. */
function startKey(entry: { job: string | null; start_s: number; cards: readonly string[] }): string {
  return entry.job ?? `${Math.round(entry.start_s)} ${entry.cards.join()}`;
}

function bar(view: Schemas["Bar"], now_s: number): Item {
  const isOver = view.end_s !== null;
  const mid_s = view.expected?.mid_s ?? null;
  const end_s = view.end_s ?? Math.max(now_s, mid_s ?? now_s);
  return {
    key: `${view.job ?? view.cards[0]}/${view.attempt}/${view.start_s}`, kind: isOver ? "past" : "running", job: view.job, name: view.name,
    owner: ownerOf(view.user, view.tenant), attempt: view.attempt, state: view.state, cards: view.cards, gpus: view.cards.length,
    share: view.share_ratio, start_s: view.start_s, startHigh_s: null, end_s, endHigh_s: later(view.expected?.high_s, end_s),
    isOpen: !isOver && mid_s === null, position: null, source: view.expected?.source ?? "",
  };
}

function planned(view: Schemas["PlannedBar"], now_s: number): Item {
  const start_s = Math.max(now_s, view.start_s);
  const end_s = Math.max(start_s, view.end_s ?? start_s);
  return {
    key: `planned/${view.job ?? view.position}`, kind: "planned", job: view.job, name: view.name, owner: view.tenant ?? "", attempt: 0,
    state: "pending", cards: view.cards, gpus: view.gpus, share: 1, start_s, startHigh_s: later(view.start_high_s, start_s), end_s,
    endHigh_s: later(view.end_high_s, end_s), isOpen: view.end_s === null, position: view.position, source: "",
  };
}

function reservation(view: Schemas["ReservationView"], timeline: Timeline): Item {
  const plan = timeline.planned.find((other) => startKey(other) === startKey(view));
  const start_s = Math.max(timeline.now_s, view.start_s);
  const end_s = Math.max(start_s, view.end_s ?? start_s);
  return {
    key: `reserved/${startKey(view)}`, kind: "reserved", job: view.job, name: view.name, owner: view.tenant ?? "", attempt: 0,
    state: "pending", cards: view.cards, gpus: view.gpus, share: 1, start_s, startHigh_s: later(view.latest_s, start_s), end_s,
    endHigh_s: later(plan?.end_high_s, end_s), isOpen: view.end_s === null, position: plan?.position ?? null, source: "",
  };
}

function later(high_s: number | null | undefined, than_s: number): number | null {
  return high_s != null && high_s > than_s ? high_s : null;
}

function ownerOf(user: string | null, tenant: string | null): string {
  return [user, tenant].filter(Boolean).join(" · ");
}
