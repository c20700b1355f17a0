// Predicted and actual progress as points in the unit square.
import type { Schemas } from "../../api/client";

export interface ProgressSample {
  at_s: number;
  ratio: number;
}

interface Inputs {
  start_s: number;
  now_s: number;
  ended_s: number | null;
  forecast: Schemas["RunForecast"] | null;
  end: Schemas["End"] | null;
  observed: readonly ProgressSample[];
}

export interface Shape {
  until_s: number;
  /** Predicted ends (median and P90) as fractions of the width. */
  mid: number | null;
  high: number | null;
  now: number;
  real: [number, number][];
  /** Projected ends (median and P90), from the latest sample on. */
  endMid: number | null;
  endHigh: number | null;
}

const MARGIN = 1.05;

export function progressShape(inputs: Inputs): Shape {
  const { start_s, forecast, end } = inputs;
  const now_s = inputs.ended_s ?? inputs.now_s;
  const mid_s = forecast?.mid_s == null ? null : start_s + forecast.mid_s;
  const high_s = forecast?.high_s == null ? null : start_s + forecast.high_s;
  const endMid_s = inputs.ended_s === null ? (end?.mid_s ?? null) : null;
  const endHigh_s = inputs.ended_s === null ? (end?.high_s ?? null) : null;
  const last_s = Math.max(now_s, ...[mid_s, high_s, endMid_s, endHigh_s].filter((end_s) => end_s !== null));
  const width_s = Math.max(1, (last_s - start_s) * MARGIN);
  const x = (at_s: number) => Math.min(1, Math.max(0, (at_s - start_s) / width_s));
  const at = (at_s: number | null) => (at_s === null ? null : x(at_s));
  return {
    until_s: start_s + width_s, mid: at(mid_s), high: at(high_s), now: x(now_s),
    real: [[0, 0], ...inputs.observed.filter((sample) => sample.at_s >= start_s).map((sample): [number, number] => [x(sample.at_s), sample.ratio])],
    endMid: at(endMid_s), endHigh: at(endHigh_s),
  };
}

/** Adds a sample. When progress goes back, the run has started again and earlier samples are dropped. */
export function withSample(observed: readonly ProgressSample[], sample: ProgressSample): readonly ProgressSample[] {
  const previous = observed.at(-1);
  if (previous && sample.at_s <= previous.at_s) return observed;
  return previous && sample.ratio < previous.ratio ? [sample] : [...observed, sample];
}
