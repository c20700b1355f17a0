import { expect, test } from "vitest";
import { around, fetchRange, MIN_SPAN_S, MAX_SPAN_S, moved, withSpanVisible, ticks, time, width_s, x, zoomed } from "./scale";

const view = { from_s: 1000, to_s: 4600 };

test("x and time are inverse functions", () => {
  expect(x(view, 720, 2800)).toBe(360);
  expect(time(view, 720, 360)).toBe(2800);
});

test("zooming keeps the time under the pointer and stays within bounds", () => {
  const near = zoomed(view, 2, 1900);
  expect(width_s(near)).toBe(1800);
  expect(x(near, 100, 1900)).toBeCloseTo(x(view, 100, 1900));
  expect(width_s(zoomed(view, 1e9, 1900))).toBe(MIN_SPAN_S);
  expect(width_s(zoomed(view, 1e-9, 1900))).toBe(MAX_SPAN_S);
});

test("the fetched range is larger than the view and does not change with every step", () => {
  const wide = fetchRange(view);
  expect(wide.from_s).toBeLessThanOrEqual(view.from_s - 1800);
  expect(wide.to_s).toBeGreaterThanOrEqual(view.to_s + 1800);
  expect(fetchRange(moved({ from_s: 10_000, to_s: 13_600 }, 5))).toEqual(fetchRange({ from_s: 10_000, to_s: 13_600 }));
  expect(width_s(fetchRange({ from_s: 0, to_s: MAX_SPAN_S }))).toBeLessThan(31 * 86_400);
});

test("ticks are round in local time", () => {
  const found = ticks({ from_s: 0, to_s: 86_400 }, 960, 9 * 3600);
  expect(found.every((tick) => (tick.at_s + 9 * 3600) % tick.step_s === 0)).toBe(true);
  expect(found.filter((tick) => tick.isDay).map((tick) => tick.at_s)).toEqual([15 * 3600]);
  expect(found.length).toBeLessThanOrEqual(12);
});

test("a chosen span is brought into view, a visible one is not moved", () => {
  expect(withSpanVisible(view, 2000, 2100)).toBe(view);
  const after = withSpanVisible(view, 9000, 9100);
  expect(after.from_s).toBeLessThan(9000);
  expect(after.to_s).toBeGreaterThan(9100);
  expect(around(1000, 100)).toEqual({ from_s: 960, to_s: 1060 });
});
