// Terminal colours on the dark log, always readable: dark text colours are made lighter. On a background chosen by the
// program, text with too little contrast becomes black or white.
import type { Style } from "./ansi";

export const LOG_BACKGROUND = "#14181c";
export const LOG_TEXT = "#dfe5ea";
const MIN_CONTRAST = 4.5; // WCAG AA for text
const TEXT_PALETTE = [
  "#8b97a3", "#ff8f86", "#6fd49a", "#e5b253", "#8fb0ff", "#d59bff", "#5fc9d1", "#dfe5ea",
  "#9aa6b2", "#ffa8a0", "#8ee3b3", "#f2c976", "#adc5ff", "#e2b8ff", "#86dbe1", "#ffffff",
];
// Background colours are darker, as in terminals.
const BACKGROUND_PALETTE = [
  "#2a3138", "#a1231b", "#1b6b3c", "#7a5000", "#2f4fae", "#6a3ea8", "#0f626b", "#c3c9d0",
  "#4d5864", "#c0392f", "#25804a", "#946300", "#4263c8", "#8150c4", "#157a85", "#ffffff",
];

export interface Paint {
  color?: string;
  backgroundColor?: string;
}

const cache = new WeakMap<Style, Paint>();

export function paint(style: Style): Paint {
  const cached = cache.get(style);
  if (cached) return cached;
  const made = computePaint(style);
  cache.set(style, made);
  return made;
}

function computePaint({ color, background, isInverse }: Style): Paint {
  if (color === undefined && background === undefined && !isInverse) return {};
  let text = color === undefined ? LOG_TEXT : typeof color === "number" ? TEXT_PALETTE[color]! : color;
  let fill = background === undefined ? null : typeof background === "number" ? BACKGROUND_PALETTE[background]! : background;
  if (isInverse) [text, fill] = [fill ?? LOG_BACKGROUND, text];
  if (fill === null) return { color: lighter(text) };
  return { color: contrast(text, fill) >= MIN_CONTRAST ? text : blackOrWhite(fill), backgroundColor: fill };
}

function blackOrWhite(from: string): string {
  return contrast("#000000", from) > contrast("#ffffff", from) ? "#000000" : "#ffffff";
}

function lighter(color: string): string {
  for (let white = 0; white < 1; white += 0.1) {
    const mix = rgb(color).map((channel) => Math.round(channel + (255 - channel) * white));
    const made = `#${mix.map((channel) => channel.toString(16).padStart(2, "0")).join("")}`;
    if (contrast(made, LOG_BACKGROUND) >= MIN_CONTRAST) return made;
  }
  return LOG_TEXT;
}

export function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

function luminance(color: string): number {
  const [r, g, b] = rgb(color).map((channel) => {
    const part = channel / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function rgb(color: string): number[] {
  return [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
}
