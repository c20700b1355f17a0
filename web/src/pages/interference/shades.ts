// How a slowdown is coloured. Five steps, so that they can be told apart, with the number always beside them.
import type { Schemas } from "../../api/client";

export type CardTables = Schemas["CardInterference"];
export type Pair = Schemas["PairView"];

const STEPS = [0.9, 0.75, 0.6, 0.45] as const;

/** 0: hardly slowed. 4: much. "none": they do not fit together. */
export function shadeOf(pair: Pair): string {
  if (pair.slowdown === null) return "none";
  const step = STEPS.findIndex((least) => pair.speed_ratio >= least);
  return String(step < 0 ? STEPS.length : step);
}

/** By row, then by column. */
export function grid(card: CardTables): { names: string[]; at: (own: string, other: string) => Pair | undefined } {
  const names = card.workloads.map((one) => one.name);
  const pairs = new Map(card.pairs.map((pair) => [`${pair.own}\n${pair.other}`, pair]));
  return { names, at: (own, other) => pairs.get(`${own}\n${other}`) };
}

export function times(slowdown: number): string {
  return `${slowdown.toFixed(slowdown < 10 ? 2 : 0)}×`;
}
