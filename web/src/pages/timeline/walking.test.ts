import { expect, test } from "vitest";
import type { Item } from "./items";
import type { Block } from "./layout";
import { walked } from "./walking";

const block = (key: string, row: number, start_s: number, end_s: number, lane = 0): Block => ({
  item: { key, start_s, end_s } as Item, first: row, last: row, lane, lanes: 1,
});
const [a, b, c, d] = [block("a", 1, 0, 10), block("b", 1, 20, 30), block("c", 2, 0, 5), block("d", 2, 25, 40)];
const all = [a, b, c, d];

test("the first step leads to the bar nearest to now", () => {
  expect(walked(all, null, "right", 27)).toBe(b);
  expect(walked([], null, "right", 27)).toBeNull();
});

test("along a row, and to the nearest in the next", () => {
  expect(walked(all, a, "right", 0)).toBe(b);
  expect(walked(all, b, "right", 0)).toBe(b);
  expect(walked(all, b, "down", 29)).toBe(d);
  expect(walked(all, d, "up", 0)).toBe(b);
  expect(walked(all, c, "down", 0)).toBe(c);
});
