import { expect, test } from "vitest";
import { blocks, byRack, gangSizes, modelOf, type Node, partsOfCards } from "./sums";

const card = (index: number, state: string) => ({ index, state, model: "H100", memory_bytes: 80, jobs: [] });
const node = (id: string, rack: string | undefined, ...states: string[]) =>
  ({ id, rack, cards: states.map((state, index) => card(index, state)) }) as unknown as Node;

test("nodes are grouped by rack in order of appearance", () => {
  const racks = byRack([node("a", "r2"), node("b", "r1"), node("c", "r2"), node("d", undefined)]);
  expect(racks.map((rack) => [rack.name, rack.nodes.map((node) => node.id)])).toEqual([
    ["r2", ["a", "c"]], ["r1", ["b"]], ["", ["d"]],
  ]);
});

test("every card is counted in exactly one state", () => {
  const parts = partsOfCards([node("a", "", "free", "busy", "shared"), node("b", "", "cordoned", "taken_outside", "drained")]);
  expect(parts).toEqual({ all: 6, free: 1, inUse: 2, unhealthy: 1, outside: 1, drained: 1 });
});

test("gang sizes are sorted as numbers", () => {
  expect(gangSizes({ usable: { "16": 0, "2": 4, "1": 8 } } as never)).toEqual([1, 2, 16]);
});

test("blocks hold all items, the last one the remainder", () => {
  expect(blocks([1, 2, 3, 4, 5], 2)).toEqual([[1, 2], [3, 4], [5]]);
});

test("the card model is known only if all cards have the same", () => {
  const same = node("a", "", "free", "busy").cards;
  expect(modelOf(same)).toEqual({ model: "H100", memory_bytes: 80 });
  expect(modelOf([same[0]!, { ...same[1]!, model: "A100" }])).toBeNull();
});
