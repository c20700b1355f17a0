// From bar to bar by keyboard.
import type { Block } from "./layout";

export type Step = "left" | "right" | "up" | "down";

/** Where a step leads; the same block where there is nothing further. Without one, to the bar nearest to now. */
export function walked(blocks: readonly Block[], from: Block | null, step: Step, now_s: number): Block | null {
  if (!from) return nearest(blocks, now_s);
  if (step === "left" || step === "right") return along(blocks, from, step);
  const middle_s = Math.max(from.item.start_s, Math.min(now_s, from.item.end_s));
  const isBelow = (one: Block) => one.first > from.last || (one.first === from.first && one.lane > from.lane);
  const isAbove = (one: Block) => one.last < from.first || (one.first === from.first && one.lane < from.lane);
  const beyond = blocks.filter(step === "down" ? isBelow : isAbove);
  if (beyond.length === 0) return from;
  const order = (one: Block) => one.first * 100 + one.lane;
  const row = step === "down" ? Math.min(...beyond.map(order)) : Math.max(...beyond.map(order));
  return nearest(beyond.filter((one) => order(one) === row), middle_s);
}

function along(blocks: readonly Block[], from: Block, step: "left" | "right"): Block {
  const sameRow = blocks.filter((one) => one.first <= from.first && one.last >= from.first);
  const sorted = sameRow.sort((a, b) => a.item.start_s - b.item.start_s || a.lane - b.lane);
  const at = sorted.indexOf(from) + (step === "left" ? -1 : 1);
  return sorted[Math.min(sorted.length - 1, Math.max(0, at))] ?? from;
}

function nearest(blocks: readonly Block[], at_s: number): Block | null {
  let [best, least_s]: [Block | null, number] = [null, Infinity];
  for (const one of blocks) {
    const away_s = Math.max(0, one.item.start_s - at_s, at_s - one.item.end_s);
    if (away_s < least_s) [best, least_s] = [one, away_s];
  }
  return best;
}
