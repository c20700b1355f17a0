// Samples of several cards on one time axis.
import type { Schemas } from "../../api/client";
import type { Line } from "../../ui/Plot";

export type Sample = Schemas["SampleView"];
type Field = "utilisation_ratio" | "memory_used_bytes" | "power_w";

const COLORS = ["--accent", "--info", "--share", "--warn", "--good", "--bad", "--text-3", "--bar-mem"];
const POINTS = 240;

/** Sample interval to request for a span, so that any span fills the width. 0: full resolution. */
export function every(span_s: number): number {
  const interval_s = span_s / POINTS;
  return interval_s <= 2 ? 0 : Math.ceil(interval_s);
}

export function aligned(cards: readonly string[], readings: readonly (readonly Sample[])[], field: Field, every_s: number, unit = 1) {
  const slot = Math.max(1, every_s);
  const times = new Set<number>();
  const byCard = readings.map((samples) => {
    const values = new Map<number, number | null>();
    for (const sample of samples) {
      const at_s = Math.round(sample.at_s / slot) * slot;
      times.add(at_s);
      values.set(at_s, sample[field]);
    }
    return values;
  });
  const x_s = [...times].sort((a, b) => a - b);
  const lines: Line[] = byCard.map((values, n) => ({
    label: cards[n]!, color: COLORS[n % COLORS.length]!, values: x_s.map((at_s) => inUnit(values.get(at_s), unit)),
  }));
  return { x_s, lines };
}

function inUnit(value: number | null | undefined, unit: number): number | null {
  return value == null ? null : value / unit;
}

/** Mean and maximum over all lines; null without samples. */
export function extent(lines: readonly Line[]): { mean: number; most: number } | null {
  let [sum, n, most] = [0, 0, -Infinity];
  for (const line of lines)
    for (const value of line.values)
      if (value !== null) [sum, n, most] = [sum + value, n + 1, Math.max(most, value)];
  return n === 0 ? null : { mean: sum / n, most };
}
