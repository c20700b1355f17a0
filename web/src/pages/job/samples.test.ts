import { expect, test } from "vitest";
import { aligned, every, extent, type Sample } from "./samples";

const at = (at_s: number, ratio: number | null): Sample => ({
  at_s, utilisation_ratio: ratio, memory_utilisation_ratio: null, memory_used_bytes: null, power_w: null,
  temperature_c: null, sm_clock_mhz: null,
});

test("samples of several cards share one time axis; gaps stay gaps", () => {
  const { x_s, lines } = aligned(["a", "b"], [[at(10.1, 0.5), at(11.2, 0.7)], [at(9.8, 1)]], "utilisation_ratio", 0);
  expect(x_s).toEqual([10, 11]);
  expect(lines.map((line) => line.values)).toEqual([[0.5, 0.7], [1, null]]);
  expect(extent(lines)!.most).toBe(1);
  expect(extent([{ label: "", color: "", values: [null] }])).toBeNull();
});

test("a minute is shown in full resolution, a day in averages", () => {
  expect(every(60)).toBe(0);
  expect(every(86_400)).toBe(360);
});
