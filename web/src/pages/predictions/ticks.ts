// Ticks of the axes.
import { currentLanguage } from "../../i18n";

const HOUR_S = 3600;
const DAY_S = 24 * HOUR_S;
/** Round durations, about a power of ten apart. */
const SPANS_S = [0.1, 1, 10, 60, 600, HOUR_S, 6 * HOUR_S, DAY_S, 7 * DAY_S, 30 * DAY_S];
const STEPS_S = [HOUR_S, 3 * HOUR_S, 6 * HOUR_S, 12 * HOUR_S, DAY_S, 2 * DAY_S, 4 * DAY_S, 7 * DAY_S];

export function spanTicks(low_s: number, high_s: number): number[] {
  return SPANS_S.filter((span_s) => span_s >= low_s && span_s <= high_s);
}

/** Midnights in local time, or hours in between if the range is short. */
export function dayTicks(low_s: number, high_s: number, limit: number): number[] {
  const step_s = STEPS_S.find((candidate_s) => (high_s - low_s) / candidate_s <= limit) ?? STEPS_S.at(-1)!;
  const offset_s = new Date(low_s * 1000).getTimezoneOffset() * 60;
  const ticks: number[] = [];
  for (let at_s = Math.ceil((low_s - offset_s) / step_s) * step_s + offset_s; at_s <= high_s; at_s += step_s) ticks.push(at_s);
  return ticks;
}

/** The date at midnight, otherwise the time. */
export function day(at_s: number): string {
  const then = new Date(at_s * 1000);
  if (then.getHours() + then.getMinutes() === 0) return then.toLocaleDateString(currentLanguage(), { month: "short", day: "numeric" });
  return then.toLocaleTimeString(currentLanguage(), { hour: "2-digit", minute: "2-digit", hour12: false });
}
