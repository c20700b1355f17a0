import { expect, test } from "vitest";
import { progressShape, withLook } from "./progressShape";

const forecast = { mid_s: 100, high_s: 200, source: "history", confidence: 0.5 };

test("the box ends a little after the last of all ends", () => {
  const end = { mid_s: 1150, high_s: 1300, source: "progress" };
  const shape = progressShape({ start_s: 1000, now_s: 1050, ended_s: null, forecast, end, seen: [{ at_s: 1050, ratio: 0.4 }] });
  expect(shape.until_s).toBeCloseTo(1315);
  expect(shape.high! / shape.mid!).toBeCloseTo(2);
  expect(shape.endHigh).toBeCloseTo(1 / 1.05);
  expect(shape.real).toEqual([[0, 0], [50 / 315, 0.4]]);
});

test("one that is over is heading nowhere", () => {
  const shape = progressShape({ start_s: 0, now_s: 9999, ended_s: 80, forecast, end: null, seen: [] });
  expect(shape.endMid).toBeNull();
  expect(shape.now).toBeCloseTo(80 / 210);
});

test("without a forecast there is still a box", () => {
  const shape = progressShape({ start_s: 5, now_s: 5, ended_s: null, forecast: null, end: null, seen: [] });
  expect(shape.mid).toBeNull();
  expect(shape.now).toBe(0);
});

test("looks are kept in order, and forgotten when the run begins anew", () => {
  const seen = withLook(withLook([], { at_s: 1, ratio: 0.5 }), { at_s: 2, ratio: 0.6 });
  expect(withLook(seen, { at_s: 2, ratio: 0.9 })).toBe(seen);
  expect(withLook(seen, { at_s: 3, ratio: 0.1 })).toEqual([{ at_s: 3, ratio: 0.1 }]);
});
