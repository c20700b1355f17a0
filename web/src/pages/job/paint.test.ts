import { expect, test } from "vitest";
import { contrast, LOG_BACKGROUND, paint } from "./paint";

test("every terminal colour is readable on the log background", () => {
  for (let color = 0; color < 16; color++) expect(contrast(paint({ color }).color!, LOG_BACKGROUND)).toBeGreaterThanOrEqual(4.5);
  expect(contrast(paint({ color: "#000080" }).color!, LOG_BACKGROUND)).toBeGreaterThanOrEqual(4.5);
});

test("text on its own background is readable", () => {
  for (let background = 0; background < 16; background++)
    for (let color = 0; color < 16; color++) {
      const made = paint({ color, background });
      expect(contrast(made.color!, made.backgroundColor!)).toBeGreaterThanOrEqual(4.5);
    }
});

test("plain text has no colour", () => {
  expect(paint({ isBold: true })).toEqual({});
});
