import { expect, test } from "vitest";
import { grid, shadeOf, times } from "./shades";

const pair = (own: string, other: string, speed_ratio: number) => ({
  own, other, speed_ratio, slowdown: speed_ratio ? 1 / speed_ratio : null, spread: 0.1, source: "measured" as const, basis: "", watched_s: 0,
});

test("a larger slowdown has a darker shade", () => {
  expect([1, 0.9, 0.8, 0.7, 0.5, 0.2, 0].map((ratio) => shadeOf(pair("a", "b", ratio)))).toEqual(["0", "0", "1", "2", "3", "4", "none"]);
});

test("pairs are found by row and column, in this order", () => {
  const card = { workloads: [{ name: "a" }, { name: "b" }], pairs: [pair("a", "b", 0.9), pair("b", "a", 0.4)] };
  const { names, at } = grid(card as never);
  expect(names).toEqual(["a", "b"]);
  expect([at("a", "b")?.speed_ratio, at("b", "a")?.speed_ratio, at("a", "a")]).toEqual([0.9, 0.4, undefined]);
});

test("slowdowns have at most two decimals", () => {
  expect([times(1.234), times(12.3)]).toEqual(["1.23×", "12×"]);
});
