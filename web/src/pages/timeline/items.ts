// What is drawn: past and running attempts, reservations and plans, in one shape.
import type { Schemas } from "../../api/client";

type Told = Schemas["TimelineView"];
export type Kind = "past" | "running" | "reserved" | "planned";

export interface Item {
  key: string;
  kind: Kind;
  /** null: a job of another tenant. */
  job: string | null;
  name: string | null;
  owner: string;
  attempt: number;
  state: string;
  cards: readonly string[];
  gpus: number;
  share: number;
  start_s: number;
  /** The latest start, where it is not sure. */
  startHigh_s: number | null;
  /** What is sure of it, or likely. */
  end_s: number;
  /** The latest end, where it is not sure. */
  endHigh_s: number | null;
  /** Nobody knows when it ends. */
  isOpen: boolean;
  position: number | null;
  source: string;
}

export function itemsOf(told: Told): Item[] {
  const reserved = told.reservations.filter((one) => one.cards.length > 0);
  const isReserved = new Set(reserved.map(sameStart));
  // The plan is a moment older than the rest: who has started since is not planned any more.
  const isRunning = new Set(told.bars.filter((one) => one.end_s === null).map((one) => one.job));
  const isAhead = (one: { job: string | null }) => one.job === null || !isRunning.has(one.job);
  return [
    ...told.planned.filter((one) => one.cards.length > 0 && isAhead(one) && !isReserved.has(sameStart(one))).map((one) => planned(one, told.now_s)),
    ...reserved.map((one) => reservation(one, told)),
    ...told.bars.map((one) => bar(one, told.now_s)),
  ];
}

/** A reservation and the plan of the same job: jobs of other tenants have no id to know them by. */
function sameStart(one: { job: string | null; start_s: number; cards: readonly string[] }): string {
  return one.job ?? `${Math.round(one.start_s)} ${one.cards.join()}`;
}

function bar(one: Schemas["Bar"], now_s: number): Item {
  const isOver = one.end_s !== null;
  const mid_s = one.expected?.mid_s ?? null;
  const end_s = one.end_s ?? Math.max(now_s, mid_s ?? now_s);
  return {
    key: `${one.job ?? one.cards[0]}/${one.attempt}/${one.start_s}`, kind: isOver ? "past" : "running", job: one.job, name: one.name,
    owner: ownerOf(one.user, one.tenant), attempt: one.attempt, state: one.state, cards: one.cards, gpus: one.cards.length,
    share: one.share_ratio, start_s: one.start_s, startHigh_s: null, end_s, endHigh_s: later(one.expected?.high_s, end_s),
    isOpen: !isOver && mid_s === null, position: null, source: one.expected?.source ?? "",
  };
}

function planned(one: Schemas["PlannedBar"], now_s: number): Item {
  const start_s = Math.max(now_s, one.start_s);
  const end_s = Math.max(start_s, one.end_s ?? start_s);
  return {
    key: `planned/${one.job ?? one.position}`, kind: "planned", job: one.job, name: one.name, owner: one.tenant ?? "", attempt: 0,
    state: "pending", cards: one.cards, gpus: one.gpus, share: 1, start_s, startHigh_s: later(one.start_high_s, start_s), end_s,
    endHigh_s: later(one.end_high_s, end_s), isOpen: one.end_s === null, position: one.position, source: "",
  };
}

function reservation(one: Schemas["ReservationView"], told: Told): Item {
  const plan = told.planned.find((other) => sameStart(other) === sameStart(one));
  const start_s = Math.max(told.now_s, one.start_s);
  const end_s = Math.max(start_s, one.end_s ?? start_s);
  return {
    key: `reserved/${sameStart(one)}`, kind: "reserved", job: one.job, name: one.name, owner: one.tenant ?? "", attempt: 0,
    state: "pending", cards: one.cards, gpus: one.gpus, share: 1, start_s, startHigh_s: later(one.latest_s, start_s), end_s,
    endHigh_s: later(plan?.end_high_s, end_s), isOpen: one.end_s === null, position: plan?.position ?? null, source: "",
  };
}

function later(high_s: number | null | undefined, than_s: number): number | null {
  return high_s != null && high_s > than_s ? high_s : null;
}

function ownerOf(user: string | null, tenant: string | null): string {
  return [user, tenant].filter(Boolean).join(" · ");
}
