// Colour tokens of the page for the canvas.
import type { Item } from "./items";

export interface Palette {
  font: string;
  surface: string;
  sunken: string;
  line: string;
  lineStrong: string;
  text: string;
  text2: string;
  focus: string;
  now: string;
  looks: Record<Look, Colors>;
}

export interface Colors {
  fill: string;
  edge: string;
  text: string;
}

export type Look = "running" | "expected" | "done" | "bad" | "stopped" | "reserved" | "planned" | "other";

const BAD = new Set(["failed", "timed_out", "lost"]);

export function readPalette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const token = (name: string) => style.getPropertyValue(name).trim();
  const colors = (fill: string, edge: string, text: string): Colors => ({ fill: token(fill), edge: token(edge), text: token(text) });
  return {
    font: token("--font"), surface: token("--surface"), sunken: token("--sunken"), line: token("--line"), lineStrong: token("--line-strong"),
    text: token("--text"), text2: token("--text-2"), focus: token("--text"), now: token("--bad"),
    looks: {
      running: colors("--accent", "--accent", "--on-accent"),
      expected: colors("--accent-soft", "--accent", "--accent-strong"),
      done: colors("--good-soft", "--good", "--good"),
      bad: colors("--bad-soft", "--bad", "--bad"),
      stopped: colors("--sunken", "--line-strong", "--text-2"),
      reserved: colors("--info-soft", "--info", "--info"),
      planned: colors("--surface", "--info", "--info"),
      other: colors("--bar-track", "--line-strong", "--text-2"),
    },
  };
}

export function lookOf(item: Item): Look {
  if (item.kind === "reserved" || item.kind === "planned") return item.kind;
  if (item.job === null) return "other";
  if (item.kind === "running") return "running";
  if (item.state === "succeeded") return "done";
  return BAD.has(item.state) ? "bad" : "stopped";
}
