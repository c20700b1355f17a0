// Where axes have their lines.
import { currentLanguage } from "../../i18n";

const HOUR_S = 3600;
const DAY_S = 24 * HOUR_S;
/** Spans that people know, about a power of ten apart. */
const SPANS_S = [0.1, 1, 10, 60, 600, HOUR_S, 6 * HOUR_S, DAY_S, 7 * DAY_S, 30 * DAY_S];
const STEPS_S = [HOUR_S, 3 * HOUR_S, 6 * HOUR_S, 12 * HOUR_S, DAY_S, 2 * DAY_S, 4 * DAY_S, 7 * DAY_S];

export function spanTicks(low_s: number, high_s: number): number[] {
  return SPANS_S.filter((one) => one >= low_s && one <= high_s);
}

/** Midnights, or hours between them where the time is short; as the clock here says. */
export function dayTicks(low_s: number, high_s: number, most: number): number[] {
  const step_s = STEPS_S.find((one) => (high_s - low_s) / one <= most) ?? STEPS_S.at(-1)!;
  const away_s = new Date(low_s * 1000).getTimezoneOffset() * 60;
  const found: number[] = [];
  for (let at_s = Math.ceil((low_s - away_s) / step_s) * step_s + away_s; at_s <= high_s; at_s += step_s) found.push(at_s);
  return found;
}

/** The day at midnight, else the time. */
export function day(at_s: number): string {
  const then = new Date(at_s * 1000);
  if (then.getHours() + then.getMinutes() === 0) return then.toLocaleDateString(currentLanguage(), { month: "short", day: "numeric" });
  return then.toLocaleTimeString(currentLanguage(), { hour: "2-digit", minute: "2-digit", hour12: false });
}
