import { expect, test } from "vitest";
import type { Item } from "./items";
import type { Block } from "./layout";
import { nextBlock } from "./keyboard";

const block = (key: string, row: number, start_s: number, end_s: number, lane = 0): Block => ({
  item: { key, start_s, end_s } as Item, first: row, last: row, lane, lanes: 1,
});
const [a, b, c, d] = [block("a", 1, 0, 10), block("b", 1, 20, 30), block("c", 2, 0, 5), block("d", 2, 25, 40)];
const all = [a, b, c, d];

test("the first step selects the bar nearest to now", () => {
  expect(nextBlock(all, null, "right", 27)).toBe(b);
  expect(nextBlock([], null, "right", 27)).toBeNull();
});

test("left and right stay in the row, up and down select the nearest bar of the next row", () => {
  expect(nextBlock(all, a, "right", 0)).toBe(b);
  expect(nextBlock(all, b, "right", 0)).toBe(b);
  expect(nextBlock(all, b, "down", 29)).toBe(d);
  expect(nextBlock(all, d, "up", 0)).toBe(b);
  expect(nextBlock(all, c, "down", 0)).toBe(c);
});
