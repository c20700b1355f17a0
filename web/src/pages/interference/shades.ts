// Colours of slowdowns: five distinguishable steps. The number is always shown as well.
import type { Schemas } from "../../api/client";

export type CardTables = Schemas["CardInterference"];
export type Pair = Schemas["PairView"];

const STEPS = [0.9, 0.75, 0.6, 0.45] as const;

/** 0: least slowdown, 4: most, "none": the two do not fit together. */
export function shadeOf(pair: Pair): string {
  if (pair.slowdown === null) return "none";
  const step = STEPS.findIndex((least) => pair.speed_ratio >= least);
  return String(step < 0 ? STEPS.length : step);
}

/** Names of rows and columns, and the pair in a cell. */
export function grid(card: CardTables): { names: string[]; at: (own: string, other: string) => Pair | undefined } {
  const names = card.workloads.map((workload) => workload.name);
  const pairs = new Map(card.pairs.map((pair) => [`${pair.own}\n${pair.other}`, pair]));
  return { names, at: (own, other) => pairs.get(`${own}\n${other}`) };
}

export function times(slowdown: number): string {
  return `${slowdown.toFixed(slowdown < 10 ? 2 : 0)}×`;
}
