import { expect, test } from "vitest";
import { dayTicks, spanTicks } from "./ticks";

test("ticks of spans are round durations", () => {
  expect(spanTicks(1, 10_000)).toEqual([1, 10, 60, 600, 3600]);
});

test("ticks of days are limited to the available width", () => {
  const week = dayTicks(1_000_000, 1_000_000 + 7 * 86_400, 4);
  expect(week.length).toBeLessThanOrEqual(5);
  expect(week.map((at) => new Date(at * 1000).getHours())).toEqual(week.map(() => 0));
  expect(dayTicks(0, 7200, 3)).toHaveLength(3);
});
