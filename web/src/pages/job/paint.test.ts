import { expect, test } from "vitest";
import { contrast, GROUND, paint } from "./paint";

test("every colour of a terminal can be read on the log's ground", () => {
  for (let color = 0; color < 16; color++) expect(contrast(paint({ color }).color!, GROUND)).toBeGreaterThanOrEqual(4.5);
  expect(contrast(paint({ color: "#000080" }).color!, GROUND)).toBeGreaterThanOrEqual(4.5);
});

test("text on a ground of its own can be read too", () => {
  for (let background = 0; background < 16; background++)
    for (let color = 0; color < 16; color++) {
      const made = paint({ color, background });
      expect(contrast(made.color!, made.backgroundColor!)).toBeGreaterThanOrEqual(4.5);
    }
});

test("plain text needs no colour", () => {
  expect(paint({ isBold: true })).toEqual({});
});
