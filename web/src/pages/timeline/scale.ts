// The time axis: visible range, moving, zooming and ticks.

export interface View {
  from_s: number;
  to_s: number;
}

export interface Tick {
  at_s: number;
  step_s: number;
  isDay: boolean;
}

export const MIN_SPAN_S = 60;
export const MAX_SPAN_S = 7 * 86_400;
const PAST_FRACTION = 0.4; // of the width, left of now
const STEPS_S = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];
const TICK_PX = 80;

export const width_s = (view: View) => view.to_s - view.from_s;

export function around(now_s: number, span_s: number): View {
  const from_s = now_s - span_s * PAST_FRACTION;
  return { from_s, to_s: from_s + span_s };
}

export function x(view: View, width_px: number, at_s: number): number {
  return ((at_s - view.from_s) / width_s(view)) * width_px;
}

export function time(view: View, width_px: number, at_px: number): number {
  return view.from_s + (at_px / width_px) * width_s(view);
}

export function moved(view: View, by_s: number): View {
  return { from_s: view.from_s + by_s, to_s: view.to_s + by_s };
}

/** A factor above 1 zooms in. `at_s` keeps its position. */
export function zoomed(view: View, factor: number, at_s: number): View {
  const before_s = width_s(view);
  const after_s = Math.min(MAX_SPAN_S, Math.max(MIN_SPAN_S, before_s / factor));
  const part = (at_s - view.from_s) / before_s;
  const from_s = at_s - part * after_s;
  return { from_s, to_s: from_s + after_s };
}

/** The view, moved if necessary so that the start of the span is visible. */
export function withSpanVisible(view: View, start_s: number, end_s: number): View {
  if (start_s < view.to_s && end_s > view.from_s) return view;
  return moved(view, start_s - view.from_s - width_s(view) * 0.2);
}

/** The range to fetch: larger than the view, and unchanged by small moves. */
export function fetchRange(view: View): View {
  const half_s = width_s(view) / 2;
  const step_s = 2 ** Math.ceil(Math.log2(half_s));
  return { from_s: Math.floor((view.from_s - half_s) / step_s) * step_s, to_s: Math.ceil((view.to_s + half_s) / step_s) * step_s };
}

/** Ticks at round local times. `offset_s`: local time minus UTC. */
export function ticks(view: View, width_px: number, offset_s: number): Tick[] {
  const min_step_s = (width_s(view) / Math.max(1, width_px)) * TICK_PX;
  const step_s = STEPS_S.find((candidate_s) => candidate_s >= min_step_s) ?? 86_400 * Math.ceil(min_step_s / 86_400);
  const found: Tick[] = [];
  for (let local = Math.ceil((view.from_s + offset_s) / step_s) * step_s; local < view.to_s + offset_s; local += step_s)
    found.push({ at_s: local - offset_s, step_s, isDay: local % 86_400 === 0 });
  return found;
}
