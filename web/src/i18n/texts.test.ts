import { expect, test } from "vitest";
import { fill, type Texts } from "./index";
import { en } from "./en";
import { ko } from "./ko";

const pages = import.meta.glob<Record<string, unknown>>("../pages/*/texts.ts", { eager: true });
const placeholders = (text: string) => (text.match(/\{\w+\}/g) ?? []).sort().join();

const all: [string, Texts][] = [["common", { en, ko }]];
for (const [file, module] of Object.entries(pages))
  for (const value of Object.values(module)) all.push([file, value as Texts]);

test.each(all)("%s: both languages have the same keys and the same placeholders", (_, both) => {
  expect(Object.keys(both.ko).sort()).toEqual(Object.keys(both.en).sort());
  for (const key of Object.keys(both.en)) {
    expect(both.ko[key], key).not.toBe("");
    expect(placeholders(both.ko[key] ?? ""), key).toBe(placeholders(both.en[key] ?? ""));
  }
});

test("placeholders are filled, unknown ones stay", () => {
  expect(fill("{n} of {m}", { n: 3 })).toBe("3 of {m}");
});
