// Layout: rows of cards by node, and the blocks of jobs on them. A gang on adjacent cards is one block; jobs that share
// a card at the same time have lanes in its row.
import type { Item } from "./items";

export interface NodeLike {
  id: string;
  cards: readonly { id: string; index: number }[];
}

export interface Row {
  kind: "node" | "card";
  id: string;
  label: string;
  node: string;
  top_px: number;
  height_px: number;
}

export interface Block {
  item: Item;
  first: number;
  last: number;
  lane: number;
  lanes: number;
}

export const NODE_PX = 26;
export const CARD_PX = 22;
export const TALL_CARD_PX = 32;
const FEW_CARDS = 20;
const MIN_OVERLAP_S = 2; // a shorter overlap of an end and the next start does not count as sharing

export function rowsOf(nodes: readonly NodeLike[]): Row[] {
  const rows: Row[] = [];
  const card_px = nodes.reduce((sum, node) => sum + node.cards.length, 0) <= FEW_CARDS ? TALL_CARD_PX : CARD_PX;
  let top_px = 0;
  const add = (row: Omit<Row, "top_px">) => {
    rows.push({ ...row, top_px });
    top_px += row.height_px;
  };
  for (const node of nodes) {
    add({ kind: "node", id: node.id, label: node.id, node: node.id, height_px: NODE_PX });
    for (const card of node.cards)
      add({ kind: "card", id: card.id, label: String(card.index), node: node.id, height_px: card_px });
  }
  return rows;
}

export function heightOf(rows: readonly Row[]): number {
  const last = rows.at(-1);
  return last ? last.top_px + last.height_px : 0;
}

/** Index of the row at a vertical position; the first or last row outside of the range. */
export function rowAt(rows: readonly Row[], at_px: number): number {
  let [low, high] = [0, rows.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (rows[middle]!.top_px <= at_px) low = middle;
    else high = middle - 1;
  }
  return low;
}

interface Lane {
  lane: number;
  lanes: number;
}

export function blocksOf(items: readonly Item[], rows: readonly Row[]): Block[] {
  const rowOf = new Map(rows.flatMap((row, n): [string, number][] => (row.kind === "card" ? [[row.id, n]] : [])));
  const onRow = new Map<number, Item[]>();
  const cardRows = items.map((item) => item.cards.map((card) => rowOf.get(card)).filter((row) => row !== undefined).sort((a, b) => a - b));
  items.forEach((item, n) => {
    for (const row of cardRows[n]!) {
      const onCard = onRow.get(row);
      if (onCard) onCard.push(item);
      else onRow.set(row, [item]);
    }
  });
  const shared = new Map<number, Map<Item, Lane>>();
  // A planned start that overlaps a bar does not share the card with it: the plan is older, or the run takes longer than
  // predicted. It is drawn below the bar.
  for (const [row, onCard] of onRow) {
    const isPlan = (item: Item) => item.kind === "planned" || item.kind === "reserved";
    const bars = lanesOf(onCard.filter((item) => !isPlan(item)));
    shared.set(row, new Map([...bars, ...lanesOf(onCard.filter(isPlan))]));
  }
  return items.flatMap((item, n) => blocksOfItem(item, cardRows[n]!, shared));
}

function blocksOfItem(item: Item, cardRows: readonly number[], shared: Map<number, Map<Item, Lane>>): Block[] {
  const blocks: Block[] = [];
  for (const row of cardRows) {
    const { lane, lanes } = shared.get(row)!.get(item) ?? { lane: 0, lanes: 1 };
    const before = blocks.at(-1);
    if (before && before.last === row - 1 && before.lanes === 1 && lanes === 1) before.last = row;
    else blocks.push({ item, first: row, last: row, lane, lanes });
  }
  return blocks;
}

/** Lanes of items that overlap others; items that do not are left out. */
function lanesOf(onCard: Item[]): Map<Item, Lane> {
  const found = new Map<Item, Lane>();
  const sorted = onCard.slice().sort((a, b) => a.start_s - b.start_s);
  let group: Item[] = [];
  let until_s = -Infinity;
  const close = () => {
    if (group.length > 1) for (const [item, lane] of assignLanes(group)) found.set(item, lane);
    group = [];
  };
  for (const item of sorted) {
    if (item.start_s + MIN_OVERLAP_S >= until_s) close();
    group.push(item);
    until_s = Math.max(group.length === 1 ? -Infinity : until_s, item.end_s);
  }
  close();
  return found;
}

function assignLanes(group: readonly Item[]): [Item, Lane][] {
  const free_s: number[] = [];
  const lanes = group.map((item) => {
    const free = free_s.findIndex((at_s) => item.start_s + MIN_OVERLAP_S >= at_s);
    const lane = free < 0 ? free_s.length : free;
    free_s[lane] = item.end_s;
    return lane;
  });
  return group.map((item, n) => [item, { lane: lanes[n]!, lanes: free_s.length }]);
}

/** Top and height of a block in the whole chart. */
export function box(block: Block, rows: readonly Row[]): { top_px: number; height_px: number } {
  const [first, last] = [rows[block.first]!, rows[block.last]!];
  const total_px = last.top_px + last.height_px - first.top_px;
  const lane_px = total_px / block.lanes;
  return { top_px: first.top_px + block.lane * lane_px, height_px: lane_px };
}
