// Formatting of numbers, sizes and times.
import { currentLanguage, translate } from "./index";

const GIB = 2 ** 30;

/** 0.734 -> "73%". */
export function percent(ratio: number | null | undefined): string {
  return ratio == null ? "–" : `${Math.round(ratio * 100)}%`;
}

/** Bytes as GiB: "39.6", "80". */
export function gib(bytes: number | null | undefined): string {
  if (bytes == null) return "–";
  const value = bytes / GIB;
  return value >= 10 || value < 0.05 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(1);
}

/** 10000 -> "10,000". */
export function count(value: number): string {
  return value.toLocaleString(currentLanguage());
}

/** A rate per second with three digits: "0.25", "12.3", "1,235". */
export function pace(perS: number | null | undefined): string {
  if (perS == null) return "–";
  return count(perS >= 100 ? Math.round(perS) : Number(perS.toPrecision(3)));
}

/** 45 -> "45s", 4000 -> "1h 6m": two units at most. */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const units: [string, number][] = [["d", 86_400], ["h", 3600], ["m", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => whole >= size);
  if (first < 0) return "0s";
  const [name, size] = units[first]!;
  const main = Math.floor(whole / size);
  const next = units[first + 1];
  const rest = next ? Math.floor((whole % size) / next[1]) : 0;
  return rest && next ? `${main}${name} ${rest}${next[0]}` : `${main}${name}`;
}

/** An instant relative to now: "in 5m", "2h 3m ago". */
export function fromNow(at_s: number, now_s: number): string {
  const away = at_s - now_s;
  if (Math.abs(away) < 1) return translate("time.now");
  return away > 0 ? translate("time.in", { span: span(away) }) : translate("time.ago", { span: span(-away) });
}

/** Date and time in full, for tooltips and tables. */
export function instant(at_s: number): string {
  return new Date(at_s * 1000).toLocaleString(currentLanguage(), { dateStyle: "medium", timeStyle: "medium" });
}

/** The time if it is today, otherwise date and time. */
export function clock(at_s: number, now_s = Date.now() / 1000): string {
  const then = new Date(at_s * 1000);
  const isToday = then.toDateString() === new Date(now_s * 1000).toDateString();
  const time = then.toLocaleTimeString(currentLanguage(), { hour: "2-digit", minute: "2-digit", hour12: false });
  if (isToday) return time;
  return `${then.toLocaleDateString(currentLanguage(), { month: "short", day: "numeric" })} ${time}`;
}
