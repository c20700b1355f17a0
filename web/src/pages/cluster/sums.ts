// What the summary and the groups show, worked out of the answers.
import type { Schemas } from "../../api/client";

export type Node = Schemas["NodeView"] & { rack?: string };
export type Card = Schemas["CardView"];
export type Cluster = Schemas["ClusterView"];

export interface Rack {
  name: string;
  nodes: Node[];
}

/** Nodes of one rack together, in the order in which racks come first. Without racks: one group without a name. */
export function byRack(nodes: readonly Node[]): Rack[] {
  const racks = new Map<string, Node[]>();
  for (const node of nodes) {
    const name = node.rack ?? "";
    racks.set(name, [...(racks.get(name) ?? []), node]);
  }
  return [...racks].map(([name, of]) => ({ name, nodes: of }));
}

export interface Parts {
  all: number;
  inUse: number;
  free: number;
  unhealthy: number;
  outside: number;
  drained: number;
}

/** Every card in exactly one part. */
export function partsOf(cluster: Cluster): Parts {
  const { gpus: all, free, unhealthy, taken_outside: outside } = cluster;
  return { all, free, unhealthy, outside, drained: 0, inUse: Math.max(0, all - free - unhealthy - outside) };
}

/** The same, counted from the cards themselves: it knows drained ones too. */
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

/** Gang sizes the service tells about, small ones first. */
export function gangSizes(cluster: Cluster): number[] {
  return Object.keys(cluster.usable).map(Number).sort((a, b) => a - b);
}

/** Cards in pieces: a node of a thousand cards is shown in blocks that come and go with scrolling. */
export function blocks<T>(items: readonly T[], size: number): T[][] {
  const found: T[][] = [];
  for (let at = 0; at < items.length; at += size) found.push(items.slice(at, at + size));
  return found;
}

/** "H100 · 80 GiB", if all cards are of one kind. */
export function kindOf(cards: readonly Card[]): { model: string; memory_bytes: number } | null {
  const first = cards[0];
  if (!first || cards.some((card) => card.model !== first.model || card.memory_bytes !== first.memory_bytes)) return null;
  return { model: first.model, memory_bytes: first.memory_bytes };
}
