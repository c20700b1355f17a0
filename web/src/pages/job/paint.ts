// A terminal's colours on our dark log, always readable: what a program chose for another background is made lighter,
// and on a background of its own the text becomes black or white where the two are too near.
import type { Style } from "./ansi";

export const GROUND = "#14181c";
export const INK = "#dfe5ea";
const LEAST = 4.5; // what is asked of text by WCAG AA
const PALETTE = [
  "#8b97a3", "#ff8f86", "#6fd49a", "#e5b253", "#8fb0ff", "#d59bff", "#5fc9d1", "#dfe5ea",
  "#9aa6b2", "#ffa8a0", "#8ee3b3", "#f2c976", "#adc5ff", "#e2b8ff", "#86dbe1", "#ffffff",
];
// As backgrounds they are darker, as terminals have it.
const GROUNDS = [
  "#2a3138", "#a1231b", "#1b6b3c", "#7a5000", "#2f4fae", "#6a3ea8", "#0f626b", "#c3c9d0",
  "#4d5864", "#c0392f", "#25804a", "#946300", "#4263c8", "#8150c4", "#157a85", "#ffffff",
];

export interface Paint {
  color?: string;
  backgroundColor?: string;
}

const known = new WeakMap<Style, Paint>();

export function paint(style: Style): Paint {
  const before = known.get(style);
  if (before) return before;
  const made = mixed(style);
  known.set(style, made);
  return made;
}

function mixed({ color, background, isInverse }: Style): Paint {
  if (color === undefined && background === undefined && !isInverse) return {};
  let text = color === undefined ? INK : typeof color === "number" ? PALETTE[color]! : color;
  let ground = background === undefined ? null : typeof background === "number" ? GROUNDS[background]! : background;
  if (isInverse) [text, ground] = [ground ?? GROUND, text];
  if (ground === null) return { color: lighter(text) };
  return { color: contrast(text, ground) >= LEAST ? text : farthest(ground), backgroundColor: ground };
}

function farthest(from: string): string {
  return contrast("#000000", from) > contrast("#ffffff", from) ? "#000000" : "#ffffff";
}

function lighter(color: string): string {
  for (let white = 0; white < 1; white += 0.1) {
    const mix = rgb(color).map((one) => Math.round(one + (255 - one) * white));
    const made = `#${mix.map((one) => one.toString(16).padStart(2, "0")).join("")}`;
    if (contrast(made, GROUND) >= LEAST) return made;
  }
  return INK;
}

export function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

function luminance(color: string): number {
  const [r, g, b] = rgb(color).map((one) => {
    const part = one / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function rgb(color: string): number[] {
  return [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
}
