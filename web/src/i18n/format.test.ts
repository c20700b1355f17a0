import { expect, test } from "vitest";
import { clock, fromNow, gib, pace, percent, span } from "./format";

test.each([
  [0, "0s"], [0.4, "0s"], [45, "45s"], [60, "1m"], [61, "1m 1s"], [4000, "1h 6m"], [90_000, "1d 1h"], [172_800, "2d"],
])("a span of %d s is %s", (seconds, text) => expect(span(seconds)).toBe(text));

test("instants are shown relative to now", () => {
  expect(fromNow(100, 100)).toBe("now");
  expect(fromNow(400, 100)).toBe("in 5m");
  expect(fromNow(100, 400)).toBe("5m ago");
});

test("an unknown value is a dash", () => {
  expect(percent(null)).toBe("–");
  expect(gib(undefined)).toBe("–");
  expect(pace(null)).toBe("–");
});

test("sizes are short", () => {
  expect(gib(80 * 2 ** 30)).toBe("80");
  expect(gib(1.5 * 2 ** 30)).toBe("1.5");
  expect([0.2543, 12.345, 99.96, 1234.5].map(pace)).toEqual(["0.254", "12.3", "100", "1,235"]);
});

test("a time on another day includes the date", () => {
  const noon = new Date(2026, 0, 2, 12, 0).getTime() / 1000;
  expect(clock(noon, noon + 60)).toBe("12:00");
  expect(clock(noon, noon + 90_000)).toBe("Jan 2 12:00");
});
