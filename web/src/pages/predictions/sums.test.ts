import { expect, test } from "vitest";
import { calibrationLines, errorLines, scatter, sourcesOf, summarize } from "./sums";

const line = { tenant: "a", cut: 0, mean_error_s: 1, within_p50: 0.5, within_p99: 1, pinball_s: 1 };
const series = {
  since_s: 0, until_s: 100, span_s: 10, count: 40, truncated: false,
  lines: [
    { ...line, source: "user", count: 30, median_ratio: 0.5, within_p90: 1, bias: -0.7 },
    { ...line, source: "app", count: 10, median_ratio: 0.1, within_p90: 0.8, bias: 0.1 },
    { ...line, source: "none", count: 0, median_ratio: null, within_p90: null, bias: null },
  ],
  series: [
    { at_s: 20, source: "app", count: 5, median_ratio: 0.1, within_p90: 1, bias: 0 },
    { at_s: 10, source: "user", count: 5, median_ratio: 0.6, within_p90: 1, bias: 0 },
  ],
  points: [{ job: "j", attempt: 1, tenant: "a", source: "app", ended_s: 1, predicted_s: 10, high_s: 20, truth_s: 0 }],
};

test("every source has its own colour", () => {
  expect(sourcesOf(series)).toEqual(["app", "none", "user"]);
  expect(scatter(series)[0]).toMatchObject({ label: "app", x: [10], y: [0.1] });
  expect(new Set(scatter(series).map((dots) => dots.color)).size).toBe(3);
});

test("error lines have points where runs ended", () => {
  expect(errorLines(series).map((line) => [line.x, line.y])).toEqual([[[20], [0.1]], [[], []], [[10], [0.6]]]);
});

test("the summary is computed from single runs", () => {
  const point = (predicted_s: number, truth_s: number) => ({ ...series.points[0]!, predicted_s, truth_s, high_s: predicted_s * 1.5 });
  const all = summarize({ ...series, points: [point(100, 100), point(150, 100), point(100, 400)] });
  expect(all).toMatchObject({ runs: 40, median_ratio: 0.5, bias: 0 });
  expect(all.within_p90).toBeCloseTo(2 / 3);
  expect(summarize({ ...series, points: [] })).toMatchObject({ median_ratio: null, within_p90: null, bias: null });
});

test("calibration lines are sorted by quantile", () => {
  const points = [{ source: "app", level: 0.9, observed: 0.8, count: 9 }, { source: "app", level: 0.5, observed: 0.6, count: 9 }];
  expect(calibrationLines(points, ["app"])[0]).toMatchObject({ x: [0.5, 0.9], y: [0.6, 0.8] });
});
