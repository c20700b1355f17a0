// Predicted against real progress, as points in a box of 0..1 by 0..1.
import type { Schemas } from "../../api/client";

export interface Seen {
  at_s: number;
  ratio: number;
}

interface Given {
  start_s: number;
  now_s: number;
  ended_s: number | null;
  forecast: Schemas["RunForecast"] | null;
  end: Schemas["End"] | null;
  seen: readonly Seen[];
}

export interface Shape {
  until_s: number;
  /** Beyond it nine of ten would be done: where the two predicted ends stand, in parts of the width. */
  mid: number | null;
  high: number | null;
  now: number;
  real: [number, number][];
  /** From the last point on: where it is heading. */
  endMid: number | null;
  endHigh: number | null;
}

const ROOM = 1.05;

export function progressShape(given: Given): Shape {
  const { start_s, forecast, end } = given;
  const now_s = given.ended_s ?? given.now_s;
  const mid_s = forecast?.mid_s == null ? null : start_s + forecast.mid_s;
  const high_s = forecast?.high_s == null ? null : start_s + forecast.high_s;
  const endMid_s = given.ended_s === null ? (end?.mid_s ?? null) : null;
  const endHigh_s = given.ended_s === null ? (end?.high_s ?? null) : null;
  const last_s = Math.max(now_s, ...[mid_s, high_s, endMid_s, endHigh_s].filter((one) => one !== null));
  const width_s = Math.max(1, (last_s - start_s) * ROOM);
  const x = (at_s: number) => Math.min(1, Math.max(0, (at_s - start_s) / width_s));
  const at = (at_s: number | null) => (at_s === null ? null : x(at_s));
  return {
    until_s: start_s + width_s, mid: at(mid_s), high: at(high_s), now: x(now_s),
    real: [[0, 0], ...given.seen.filter((one) => one.at_s >= start_s).map((one): [number, number] => [x(one.at_s), one.ratio])],
    endMid: at(endMid_s), endHigh: at(endHigh_s),
  };
}

/** What was seen, with one more look. A run that began anew forgets what the one before had done. */
export function withLook(seen: readonly Seen[], look: Seen): readonly Seen[] {
  const before = seen.at(-1);
  if (before && look.at_s <= before.at_s) return seen;
  return before && look.ratio < before.ratio ? [look] : [...seen, look];
}
