// Values of the summary and the node groups, computed from the responses.
import type { Schemas } from "../../api/client";

export type Node = Schemas["NodeView"] & { rack?: string };
export type Card = Schemas["CardView"];
export type Cluster = Schemas["ClusterView"];

export interface Rack {
  name: string;
  nodes: Node[];
}

/** Groups nodes by rack, in order of first appearance. Nodes without a rack are in a group with an empty name. */
export function byRack(nodes: readonly Node[]): Rack[] {
  const racks = new Map<string, Node[]>();
  for (const node of nodes) {
    const name = node.rack ?? "";
    racks.set(name, [...(racks.get(name) ?? []), node]);
  }
  return [...racks].map(([name, members]) => ({ name, nodes: members }));
}

export interface Parts {
  all: number;
  inUse: number;
  free: number;
  unhealthy: number;
  outside: number;
  drained: number;
}

/** Number of cards by state; each card is counted once. */
export function partsOf(cluster: Cluster): Parts {
  const { gpus: all, free, unhealthy, taken_outside: outside } = cluster;
  return { all, free, unhealthy, outside, drained: 0, inUse: Math.max(0, all - free - unhealthy - outside) };
}

/** The same, counted from the cards, so that drained ones are included. */
export function partsOfCards(nodes: readonly Node[]): Parts {
  const parts: Parts = { all: 0, inUse: 0, free: 0, unhealthy: 0, outside: 0, drained: 0 };
  for (const node of nodes)
    for (const card of node.cards) {
      parts.all += 1;
      parts[PART_OF[card.state]] += 1;
    }
  return parts;
}

const PART_OF: Record<Card["state"], Exclude<keyof Parts, "all">> = {
  free: "free", busy: "inUse", shared: "inUse", taken_outside: "outside", cordoned: "unhealthy", drained: "drained",
};

/** Gang sizes that the service reports, in ascending order. */
export function gangSizes(cluster: Cluster): number[] {
  return Object.keys(cluster.usable).map(Number).sort((a, b) => a - b);
}

/** Splits cards into blocks, so that a node with a thousand cards is rendered block by block while scrolling. */
export function blocks<T>(items: readonly T[], size: number): T[][] {
  const result: T[][] = [];
  for (let at = 0; at < items.length; at += size) result.push(items.slice(at, at + size));
  return result;
}

/** Model and memory if they are the same for all cards. */
export function modelOf(cards: readonly Card[]): { model: string; memory_bytes: number } | null {
  const first = cards[0];
  if (!first || cards.some((card) => card.model !== first.model || card.memory_bytes !== first.memory_bytes)) return null;
  return { model: first.model, memory_bytes: first.memory_bytes };
}
