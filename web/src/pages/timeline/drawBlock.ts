import { hatch, type Scene } from "./draw";
import type { Item } from "./items";
import type { Block } from "./layout";
import { type Colors, lookOf } from "./palette";

type Pen = CanvasRenderingContext2D;
const MIN_PX = 3;
const OPEN_PX = 60; // fade-out of an unknown end
const MARKS: Record<string, string> = { bad: "✕ ", reserved: "◆ " };

/** One job on its cards: the certain part, the predicted part, and a fade-out for the uncertain end. */
export function drawBlock(pen: Pen, scene: Scene, block: Block, toX: (at_s: number) => number, top: number, height: number): void {
  const { item } = block;
  const colors = scene.palette.looks[lookOf(item)];
  const edge = scene.gutter_px - 20; // bars are cut off outside the visible area
  const left = Math.max(edge, toX(item.start_s));
  const right = Math.min(scene.width_px + 20, Math.max(left + MIN_PX, toX(item.end_s)));
  fade(pen, scene, item, toX, right, top, height, colors);
  if (item.kind === "running" || item.kind === "past") body(pen, scene, item, toX, left, right, top, height, colors);
  else ahead(pen, item, left, right, top, height, colors);
  if (item.startHigh_s !== null) whisker(pen, left, toX(item.startHigh_s), top + height / 2, colors.edge);
  name(pen, scene, item, left, right, top, height, colors);
  outline(pen, scene, block, left, right, top, height);
}

function body(
  pen: Pen, scene: Scene, item: Item, toX: (at_s: number) => number, left: number, right: number, top: number, height: number, colors: Colors,
): void {
  const now = item.kind === "running" ? Math.min(right, Math.max(left + MIN_PX, toX(scene.now_s))) : right;
  if (now < right) {
    const likely = scene.palette.looks[item.job === null ? "other" : "expected"];
    rounded(pen, left, top, right - left, height);
    pen.fillStyle = likely.fill;
    pen.fill();
    pen.strokeStyle = likely.edge;
    pen.stroke();
  }
  rounded(pen, left, top, now - left, height);
  pen.fillStyle = colors.fill;
  pen.fill();
  pen.strokeStyle = colors.edge;
  pen.stroke();
}

function ahead(pen: Pen, item: Item, left: number, right: number, top: number, height: number, colors: Colors): void {
  rounded(pen, left, top, right - left, height);
  pen.fillStyle = colors.fill;
  pen.fill();
  if (item.kind === "reserved") {
    pen.save();
    pen.clip();
    pen.globalAlpha = 0.18;
    hatch(pen, left, top, right - left, height, colors.edge);
    pen.restore();
    rounded(pen, left, top, right - left, height);
  } else pen.setLineDash([4, 3]);
  pen.strokeStyle = colors.edge;
  pen.stroke();
  pen.setLineDash([]);
}

/** Fade-out from the predicted end to the latest end. */
function fade(
  pen: Pen, scene: Scene, item: Item, toX: (at_s: number) => number, right: number, top: number, height: number, colors: Colors,
): void {
  const until = item.isOpen ? right + OPEN_PX : item.endHigh_s === null ? right : toX(item.endHigh_s);
  if (until - right < 2 || right > scene.width_px) return;
  const shade = pen.createLinearGradient(right - 4, 0, until, 0);
  const color = item.kind === "running" && item.job !== null ? scene.palette.looks.expected.edge : colors.edge;
  shade.addColorStop(0, color);
  shade.addColorStop(1, `${color}00`); // the tokens are #rrggbb
  pen.save();
  pen.globalAlpha = 0.35;
  pen.fillStyle = shade;
  pen.fillRect(right - 4, top + 2, until - right + 4, height - 4);
  pen.restore();
  if (!item.isOpen) whisker(pen, right, until, top + height / 2, color);
}

/** Uncertainty of a start or end, as a line with an end mark. */
function whisker(pen: Pen, from: number, to: number, middle: number, color: string): void {
  pen.fillStyle = color;
  pen.fillRect(from, middle - 0.5, to - from, 1);
  pen.fillRect(to - 1, middle - 4, 1.5, 8);
}

function name(pen: Pen, scene: Scene, item: Item, left: number, right: number, top: number, height: number, colors: Colors): void {
  const from = Math.max(left, scene.gutter_px) + 6;
  const room = Math.min(right, scene.width_px) - from - 4;
  if (room < 22 || height < 9) return;
  const likely = scene.palette.looks.expected;
  pen.font = `${height < 13 ? 9 : 11}px ${scene.palette.font}`;
  const text = fitted(pen, (MARKS[lookOf(item)] ?? "") + (item.job === null ? scene.other : item.name || item.job), room);
  pen.textAlign = "left";
  pen.save();
  pen.beginPath();
  pen.rect(from, top, room, height);
  pen.clip();
  pen.fillStyle = colors.text;
  pen.fillText(text, from, top + height / 2 + 0.5);
  // Over the lighter predicted part the name has another colour.
  const now = scene.gutter_px + ((scene.now_s - scene.view.from_s) / (scene.view.to_s - scene.view.from_s)) * (scene.width_px - scene.gutter_px);
  if (item.kind === "running" && item.job !== null && now < from + room) {
    pen.beginPath();
    pen.rect(Math.max(now, left + MIN_PX), top, scene.width_px, height);
    pen.clip();
    pen.fillStyle = likely.fill;
    pen.fillRect(from - 3, top + 1.5, room, height - 3);
    pen.fillStyle = likely.text;
    pen.fillText(text, from, top + height / 2 + 0.5);
  }
  pen.restore();
}

/** The text, shortened to the available width. */
export function fitted(pen: Pen, text: string, room: number): string {
  const short = text.slice(0, 200); // names may be long, and measuring them takes time
  const width = pen.measureText(short).width;
  if (width <= room) return short;
  return `${short.slice(0, Math.max(1, Math.floor((short.length * room) / width) - 1))}…`;
}

function outline(pen: Pen, scene: Scene, block: Block, left: number, right: number, top: number, height: number): void {
  const isFocused = scene.focused === block;
  if (!isFocused && scene.hovered?.item !== block.item && scene.chosen !== block.item.key) return;
  rounded(pen, left - 1, top - 1, right - left + 2, height + 2);
  pen.strokeStyle = scene.palette.focus;
  pen.lineWidth = isFocused ? 3 : 2;
  pen.stroke();
  pen.lineWidth = 1;
}

function rounded(pen: Pen, left: number, top: number, width: number, height: number): void {
  pen.beginPath();
  pen.roundRect(left, top, Math.max(1, width), height, Math.min(4, width / 2, height / 2));
}
