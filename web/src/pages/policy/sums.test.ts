import { expect, test } from "vitest";
import { deadlineSeries, isSame, mean, serviceSeries, shifts } from "./sums";

test("the largest shifts come first, and unchanged starts are left out", () => {
  const preview = {
    starts: [], preempted: [],
    moved: [
      { job: "a", before_s: 100, after_s: 40 }, { job: "b", before_s: 10, after_s: 10.2 },
      { job: "c", before_s: 10, after_s: 500 }, { job: "d", before_s: null, after_s: 9 },
    ],
  };
  expect(shifts(preview).map((shift) => [shift.job, shift.by_s])).toEqual([["d", null], ["c", 490], ["a", -60]]);
  expect(isSame(preview)).toBe(false);
  expect(isSame({ starts: [], preempted: [], moved: [] })).toBe(true);
});

const goals = {
  deadlines: [
    { at_s: 20, tenant: "a", met: 1, missed: 1 }, { at_s: 10, tenant: "a", met: 2, missed: 0 },
    { at_s: 20, tenant: "b", met: 2, missed: 0 },
  ],
  attainment: [
    { at_s: 1, job: "x", attainment_ratio: 0.5, weight: 1 }, { at_s: 2, job: "y", attainment_ratio: 1, weight: null },
  ],
} as never;

test("deadlines of all tenants are one series", () => {
  expect(deadlineSeries(goals)).toEqual({ x_s: [10, 20], values: [1, 0.75], met: 5, all: 6 });
});

test("each service has its own series, with gaps", () => {
  expect([...serviceSeries(goals, "attainment_ratio").jobs]).toEqual([["x", [0.5, null]], ["y", [null, 1]]]);
  expect([...serviceSeries(goals, "weight").jobs]).toEqual([["x", [1, null]]]);
  expect(mean([1, null, 0])).toBe(0.5);
});
