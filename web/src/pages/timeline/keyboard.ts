// Keyboard navigation between bars.
import type { Block } from "./layout";

export type Step = "left" | "right" | "up" | "down";

/** The next block in a direction, or the same one at the end. Without a start, the bar nearest to now. */
export function nextBlock(blocks: readonly Block[], from: Block | null, step: Step, now_s: number): Block | null {
  if (!from) return nearest(blocks, now_s);
  if (step === "left" || step === "right") return along(blocks, from, step);
  const middle_s = Math.max(from.item.start_s, Math.min(now_s, from.item.end_s));
  const isBelow = (block: Block) => block.first > from.last || (block.first === from.first && block.lane > from.lane);
  const isAbove = (block: Block) => block.last < from.first || (block.first === from.first && block.lane < from.lane);
  const beyond = blocks.filter(step === "down" ? isBelow : isAbove);
  if (beyond.length === 0) return from;
  const order = (block: Block) => block.first * 100 + block.lane;
  const row = step === "down" ? Math.min(...beyond.map(order)) : Math.max(...beyond.map(order));
  return nearest(beyond.filter((block) => order(block) === row), middle_s);
}

function along(blocks: readonly Block[], from: Block, step: "left" | "right"): Block {
  const sameRow = blocks.filter((block) => block.first <= from.first && block.last >= from.first);
  const sorted = sameRow.sort((a, b) => a.item.start_s - b.item.start_s || a.lane - b.lane);
  const at = sorted.indexOf(from) + (step === "left" ? -1 : 1);
  return sorted[Math.min(sorted.length - 1, Math.max(0, at))] ?? from;
}

function nearest(blocks: readonly Block[], at_s: number): Block | null {
  let [best, least_s]: [Block | null, number] = [null, Infinity];
  for (const block of blocks) {
    const away_s = Math.max(0, block.item.start_s - at_s, at_s - block.item.end_s);
    if (away_s < least_s) [best, least_s] = [block, away_s];
  }
  return best;
}
