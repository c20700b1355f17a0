import { expect, test } from "vitest";
import { progressShape, withSample } from "./progressShape";

const forecast = { mid_s: 100, high_s: 200, source: "history", confidence: 0.5 };

test("the time axis ends shortly after the latest end", () => {
  const end = { mid_s: 1150, high_s: 1300, source: "progress" };
  const shape = progressShape({ start_s: 1000, now_s: 1050, ended_s: null, forecast, end, observed: [{ at_s: 1050, ratio: 0.4 }] });
  expect(shape.until_s).toBeCloseTo(1315);
  expect(shape.high! / shape.mid!).toBeCloseTo(2);
  expect(shape.endHigh).toBeCloseTo(1 / 1.05);
  expect(shape.real).toEqual([[0, 0], [50 / 315, 0.4]]);
});

test("an ended run has no projected end", () => {
  const shape = progressShape({ start_s: 0, now_s: 9999, ended_s: 80, forecast, end: null, observed: [] });
  expect(shape.endMid).toBeNull();
  expect(shape.now).toBeCloseTo(80 / 210);
});

test("without a prediction there is still a time axis", () => {
  const shape = progressShape({ start_s: 5, now_s: 5, ended_s: null, forecast: null, end: null, observed: [] });
  expect(shape.mid).toBeNull();
  expect(shape.now).toBe(0);
});

test("samples stay in order and are dropped when the run starts again", () => {
  const observed = withSample(withSample([], { at_s: 1, ratio: 0.5 }), { at_s: 2, ratio: 0.6 });
  expect(withSample(observed, { at_s: 2, ratio: 0.9 })).toBe(observed);
  expect(withSample(observed, { at_s: 3, ratio: 0.1 })).toEqual([{ at_s: 3, ratio: 0.1 }]);
});
