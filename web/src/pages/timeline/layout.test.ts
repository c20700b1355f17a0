import { expect, test } from "vitest";
import type { Schemas } from "../../api/client";
import { type Item, itemsOf } from "./items";
import { blocksOf, box, CARD_PX, heightOf, NODE_PX, rowAt, rowsOf, TALL_CARD_PX } from "./layout";

const node = (id: string, n: number) => ({ id, cards: Array.from({ length: n }, (_, index) => ({ id: `${id}/${index}`, index })) });
const item = (key: string, cards: string[], start_s: number, end_s: number): Item => ({
  key, kind: "past", job: key, name: key, owner: "", attempt: 0, state: "succeeded", cards, gpus: cards.length, share: 1, start_s,
  startHigh_s: null, end_s, endHigh_s: null, isOpen: false, position: null, source: "",
});
const rows = rowsOf([node("a", 4), node("b", 2)]);

test("rows are grouped by node and found by their vertical position", () => {
  expect(rows.map((row) => row.id)).toEqual(["a", "a/0", "a/1", "a/2", "a/3", "b", "b/0", "b/1"]);
  expect(heightOf(rows)).toBe(2 * NODE_PX + 6 * TALL_CARD_PX);
  expect(heightOf(rowsOf([node("a", 40)]))).toBe(NODE_PX + 40 * CARD_PX);
  expect(rows[rowAt(rows, NODE_PX + 1)]!.id).toBe("a/0");
  expect(rowAt(rows, -5)).toBe(0);
  expect(rowAt(rows, 1e6)).toBe(7);
});

test("a gang on adjacent cards is one block, on other cards another", () => {
  const blocks = blocksOf([item("g", ["a/0", "a/1", "a/3", "b/0"], 0, 10)], rows);
  expect(blocks.map((block) => [block.first, block.last])).toEqual([[1, 2], [4, 4], [6, 6]]);
});

test("jobs that share a card have lanes, consecutive jobs do not", () => {
  const blocks = blocksOf([item("x", ["a/0"], 0, 100), item("y", ["a/0"], 50, 150), item("z", ["a/0"], 149, 200)], rows);
  expect(blocks.map((block) => [block.item.key, block.lane, block.lanes])).toEqual([["x", 0, 2], ["y", 1, 2], ["z", 0, 1]]);
  expect(box(blocks[1]!, rows)).toEqual({ top_px: NODE_PX + TALL_CARD_PX / 2, height_px: TALL_CARD_PX / 2 });
});

test("a thousand cards and 20,000 bars are laid out within a second", () => {
  const many = rowsOf(Array.from({ length: 125 }, (_, n) => node(`n${n}`, 8)));
  const bars = Array.from({ length: 20_000 }, (_, n) => item(`j${n}`, [`n${n % 125}/${Math.floor(n / 125) % 8}`], n, n + 900));
  const start_ms = performance.now();
  expect(blocksOf(bars, many).length).toBe(20_000);
  expect(performance.now() - start_ms).toBeLessThan(1000);
});

test("a reservation and its planned start are one item; a running job fades out to its latest end", () => {
  const timeline: Schemas["TimelineView"] = {
    now_s: 100, from_s: 0, to_s: 1000, truncated: false, planned_at_s: 100, planned_unknown: 0, windows: [],
    bars: [{ job: "r", name: "r", tenant: "t", user: "u", attempt: 0, cards: ["a/0"], start_s: 50, end_s: null, state: "running", share_ratio: 1, expected: { mid_s: 200, high_s: 300, source: "user" } }],
    reservations: [{ job: "w", name: "w", tenant: "t", gpus: 1, start_s: 200, latest_s: 300, end_s: 400, cards: ["a/0"] }],
    planned: [{ job: "w", name: "w", tenant: "t", gpus: 1, position: 1, start_s: 200, start_high_s: 300, end_s: 400, end_high_s: 500, cards: ["a/0"] }],
  };
  const items = itemsOf(timeline);
  expect(items.map((item) => item.kind)).toEqual(["reserved", "running"]);
  expect(items[0]).toMatchObject({ startHigh_s: 300, end_s: 400, endHigh_s: 500, position: 1 });
  expect(items[1]).toMatchObject({ end_s: 200, endHigh_s: 300, isOpen: false });
});
