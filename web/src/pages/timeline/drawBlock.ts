import { hatch, type Scene } from "./draw";
import type { Item } from "./items";
import type { Block } from "./layout";
import { type Colors, lookOf } from "./palette";

type Pen = CanvasRenderingContext2D;
const MIN_PX = 3; // shortest visible bar
const OPEN_PX = 60; // length of the fade-out if the end is unknown
// Shown before the names of failed and reserved jobs.
const MARKS: Record<string, string> = { bad: "✕ ", reserved: "◆ " };

/** One job on its cards: the certain part, the predicted part, and a fade-out for the uncertain end. */
export function drawBlock(pen: Pen, scene: Scene, block: Block, toX: (at_s: number) => number, top: number, height: number): void {
  const { item } = block;
  const colors = scene.palette.looks[lookOf(item)];
  const leftLimit = scene.gutter_px - 20; // bars are cut off outside the visible area
  const left = Math.max(leftLimit, toX(item.start_s));
  const right = Math.min(scene.width_px + 20, Math.max(left + MIN_PX, toX(item.end_s)));
  drawFade(pen, scene, item, toX, right, top, height, colors);
  if (item.kind === "running" || item.kind === "past") drawActual(pen, scene, item, toX, left, right, top, height, colors);
  else drawPlanned(pen, item, left, right, top, height, colors);
  if (item.startHigh_s !== null) drawWhisker(pen, left, toX(item.startHigh_s), top + height / 2, colors.edge);
  drawName(pen, scene, item, left, right, top, height, colors);
  drawOutline(pen, scene, block, left, right, top, height);
}

/** A running or ended job: up to now what has run, after it the predicted rest. */
function drawActual(
  pen: Pen, scene: Scene, item: Item, toX: (at_s: number) => number, left: number, right: number, top: number, height: number, colors: Colors,
): void {
  const nowX = item.kind === "running" ? Math.min(right, Math.max(left + MIN_PX, toX(scene.now_s))) : right;
  if (nowX < right) {
    const predicted = scene.palette.looks[item.job === null ? "other" : "expected"];
    roundedPath(pen, left, top, right - left, height);
    pen.fillStyle = predicted.fill;
    pen.fill();
    pen.strokeStyle = predicted.edge;
    pen.stroke();
  }
  roundedPath(pen, left, top, nowX - left, height);
  pen.fillStyle = colors.fill;
  pen.fill();
  pen.strokeStyle = colors.edge;
  pen.stroke();
}

/** A job that has not started: hatched if its cards are reserved, otherwise dashed. */
function drawPlanned(pen: Pen, item: Item, left: number, right: number, top: number, height: number, colors: Colors): void {
  roundedPath(pen, left, top, right - left, height);
  pen.fillStyle = colors.fill;
  pen.fill();
  if (item.kind === "reserved") {
    pen.save();
    pen.clip();
    pen.globalAlpha = 0.18;
    hatch(pen, left, top, right - left, height, colors.edge);
    pen.restore();
    roundedPath(pen, left, top, right - left, height);
  } else pen.setLineDash([4, 3]);
  pen.strokeStyle = colors.edge;
  pen.stroke();
  pen.setLineDash([]);
}

/** Fade-out from the predicted end to the latest end. */
function drawFade(
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
  if (!item.isOpen) drawWhisker(pen, right, until, top + height / 2, color);
}

/** Uncertainty of a start or end, as a line with an end mark. */
function drawWhisker(pen: Pen, from: number, to: number, middle: number, color: string): void {
  pen.fillStyle = color;
  pen.fillRect(from, middle - 0.5, to - from, 1);
  pen.fillRect(to - 1, middle - 4, 1.5, 8);
}

/** The name of the job, or the text for work of others, if there is room. */
function drawName(pen: Pen, scene: Scene, item: Item, left: number, right: number, top: number, height: number, colors: Colors): void {
  const from = Math.max(left, scene.gutter_px) + 6;
  const room = Math.min(right, scene.width_px) - from - 4;
  if (room < 22 || height < 9) return;
  const predicted = scene.palette.looks.expected;
  pen.font = `${height < 13 ? 9 : 11}px ${scene.palette.font}`;
  const text = fitText(pen, (MARKS[lookOf(item)] ?? "") + (item.job === null ? scene.other : item.name || item.job), room);
  pen.textAlign = "left";
  pen.save();
  pen.beginPath();
  pen.rect(from, top, room, height);
  pen.clip();
  pen.fillStyle = colors.text;
  pen.fillText(text, from, top + height / 2 + 0.5);
  // Over the lighter predicted part the name has another colour.
  const nowX = scene.gutter_px + ((scene.now_s - scene.view.from_s) / (scene.view.to_s - scene.view.from_s)) * (scene.width_px - scene.gutter_px);
  if (item.kind === "running" && item.job !== null && nowX < from + room) {
    pen.beginPath();
    pen.rect(Math.max(nowX, left + MIN_PX), top, scene.width_px, height);
    pen.clip();
    pen.fillStyle = predicted.fill;
    pen.fillRect(from - 3, top + 1.5, room, height - 3);
    pen.fillStyle = predicted.text;
    pen.fillText(text, from, top + height / 2 + 0.5);
  }
  pen.restore();
}

/** The text, shortened to the width `room`. */
export function fitText(pen: Pen, text: string, room: number): string {
  const short = text.slice(0, 200); // names may be long, and measuring them takes time
  const width = pen.measureText(short).width;
  if (width <= room) return short;
  return `${short.slice(0, Math.max(1, Math.floor((short.length * room) / width) - 1))}…`;
}

/** Outline of the focused, hovered or chosen job. */
function drawOutline(pen: Pen, scene: Scene, block: Block, left: number, right: number, top: number, height: number): void {
  const isFocused = scene.focused === block;
  if (!isFocused && scene.hovered?.item !== block.item && scene.chosen !== block.item.key) return;
  roundedPath(pen, left - 1, top - 1, right - left + 2, height + 2);
  pen.strokeStyle = scene.palette.focus;
  pen.lineWidth = isFocused ? 3 : 2;
  pen.stroke();
  pen.lineWidth = 1;
}

function roundedPath(pen: Pen, left: number, top: number, width: number, height: number): void {
  pen.beginPath();
  pen.roundRect(left, top, Math.max(1, width), height, Math.min(4, width / 2, height / 2));
}
