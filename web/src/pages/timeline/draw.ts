// Draws the timeline. Only visible rows and blocks are drawn.
import { drawBlock, fitText } from "./drawBlock";
import { type Block, box, rowAt, type Row } from "./layout";
import type { Palette } from "./palette";
import { ticks, type View, x } from "./scale";

export const AXIS_PX = 30;

export interface Band {
  nodes: ReadonlySet<string>;
  start_s: number;
  end_s: number | null;
  label: string;
}

export interface Scene {
  rows: readonly Row[];
  blocks: readonly Block[];
  bands: readonly Band[];
  view: View;
  now_s: number;
  scroll_px: number;
  width_px: number;
  height_px: number;
  gutter_px: number;
  chosen: string | null;
  focused: Block | null;
  hovered: Block | null;
  palette: Palette;
  /** Label of an axis tick. */
  label: (at_s: number, step_s: number, isDay: boolean) => string;
  other: string;
}

type Pen = CanvasRenderingContext2D;

export function draw(pen: Pen, scene: Scene): void {
  const { width_px, height_px, palette } = scene;
  pen.fillStyle = palette.surface;
  pen.fillRect(0, 0, width_px, height_px);
  pen.textBaseline = "middle";
  clipped(pen, 0, AXIS_PX, width_px, height_px - AXIS_PX, () => drawRows(pen, scene));
  clipped(pen, scene.gutter_px, AXIS_PX, width_px, height_px - AXIS_PX, () => {
    grid(pen, scene);
    for (const band of scene.bands) maintenance(pen, scene, band);
    drawBlocks(pen, scene);
  });
  axis(pen, scene);
  nowLine(pen, scene);
}

function clipped(pen: Pen, left: number, top: number, width: number, height: number, inside: () => void): void {
  pen.save();
  pen.beginPath();
  pen.rect(left, top, width, height);
  pen.clip();
  inside();
  pen.restore();
}

const toX = (scene: Scene, at_s: number) => scene.gutter_px + x(scene.view, scene.width_px - scene.gutter_px, at_s);
const toY = (scene: Scene, top_px: number) => AXIS_PX + top_px - scene.scroll_px;

function visibleRows(scene: Scene): [number, number] {
  return [rowAt(scene.rows, scene.scroll_px), rowAt(scene.rows, scene.scroll_px + scene.height_px - AXIS_PX)];
}

function drawRows(pen: Pen, scene: Scene): void {
  const { palette, width_px, gutter_px } = scene;
  const [first, last] = visibleRows(scene);
  for (let n = first; n <= last; n++) {
    const row = scene.rows[n];
    if (!row) return;
    const top = toY(scene, row.top_px);
    if (row.kind === "node") {
      pen.fillStyle = palette.sunken;
      pen.fillRect(0, top, width_px, row.height_px);
    }
    pen.fillStyle = palette.line;
    pen.fillRect(0, top + row.height_px - 1, width_px, 1);
    pen.font = row.kind === "node" ? `600 12px ${palette.font}` : `11px ${palette.font}`;
    pen.fillStyle = row.kind === "node" ? palette.text : palette.text2;
    pen.textAlign = row.kind === "node" ? "left" : "right";
    pen.fillText(row.label, row.kind === "node" ? 10 : gutter_px - 10, top + row.height_px / 2);
  }
  pen.fillStyle = palette.lineStrong;
  pen.fillRect(gutter_px - 1, AXIS_PX, 1, scene.height_px);
}

function axisTicks(scene: Scene) {
  const offset_s = -new Date(scene.view.from_s * 1000).getTimezoneOffset() * 60;
  return ticks(scene.view, scene.width_px - scene.gutter_px, offset_s);
}

function grid(pen: Pen, scene: Scene): void {
  for (const tick of axisTicks(scene)) {
    pen.fillStyle = tick.isDay ? scene.palette.lineStrong : scene.palette.line;
    pen.fillRect(Math.round(toX(scene, tick.at_s)), AXIS_PX, 1, scene.height_px);
  }
}

function axis(pen: Pen, scene: Scene): void {
  const { palette, width_px } = scene;
  pen.fillStyle = palette.surface;
  pen.fillRect(0, 0, width_px, AXIS_PX);
  pen.fillStyle = palette.lineStrong;
  pen.fillRect(0, AXIS_PX - 1, width_px, 1);
  pen.textAlign = "center";
  clipped(pen, scene.gutter_px, 0, width_px, AXIS_PX, () => {
    for (const tick of axisTicks(scene)) {
      pen.font = `${tick.isDay ? "600 " : ""}11px ${palette.font}`;
      pen.fillStyle = tick.isDay ? palette.text : palette.text2;
      pen.fillText(scene.label(tick.at_s, tick.step_s, tick.isDay), toX(scene, tick.at_s), AXIS_PX / 2);
    }
  });
  const [first] = visibleRows(scene);
  pen.textAlign = "left";
  pen.font = `600 11px ${palette.font}`;
  pen.fillStyle = palette.text2;
  if (scene.scroll_px > 0) clipped(pen, 0, 0, scene.gutter_px - 4, AXIS_PX, () => pen.fillText(scene.rows[first]?.node ?? "", 10, AXIS_PX / 2));
}

function nowLine(pen: Pen, scene: Scene): void {
  const at = Math.round(toX(scene, scene.now_s));
  if (at < scene.gutter_px || at > scene.width_px) return;
  pen.fillStyle = scene.palette.now;
  pen.fillRect(at - 1, AXIS_PX - 8, 2, scene.height_px);
  pen.beginPath();
  pen.arc(at, AXIS_PX - 8, 4, 0, 7);
  pen.fill();
}

function maintenance(pen: Pen, scene: Scene, band: Band): void {
  const left = Math.max(scene.gutter_px, toX(scene, band.start_s));
  const right = band.end_s === null ? scene.width_px : Math.min(scene.width_px, toX(scene, band.end_s));
  if (right <= left) return;
  const [first, last] = visibleRows(scene);
  for (let n = first; n <= last; n++) {
    const row = scene.rows[n];
    if (!row || !band.nodes.has(row.node)) continue;
    const top = toY(scene, row.top_px);
    clipped(pen, left, top, right - left, row.height_px, () => hatch(pen, left, top, right - left, row.height_px, scene.palette.lineStrong));
    if (row.kind !== "node") continue;
    pen.font = `600 11px ${scene.palette.font}`;
    pen.textAlign = "left";
    pen.fillStyle = scene.palette.sunken;
    const label = fitText(pen, band.label, right - left - 18);
    const wide = Math.min(right - left - 8, pen.measureText(label).width + 8);
    if (wide < 30) continue;
    pen.fillRect(left + 4, top + 3, wide, row.height_px - 7);
    pen.fillStyle = scene.palette.text2;
    clipped(pen, left, top, right - left - 6, row.height_px, () => pen.fillText(label, left + 8, top + row.height_px / 2));
  }
}

/** Diagonal lines that continue from row to row. */
export function hatch(pen: Pen, left: number, top: number, width: number, height: number, color: string): void {
  pen.strokeStyle = color;
  pen.lineWidth = 1;
  pen.beginPath();
  const from = Math.floor((left + top) / 7) * 7;
  for (let sum = from; sum < left + width + top + height; sum += 7) {
    pen.moveTo(sum - top, top);
    pen.lineTo(sum - top - height, top + height);
  }
  pen.stroke();
}

function drawBlocks(pen: Pen, scene: Scene): void {
  const [first, last] = visibleRows(scene);
  for (const block of scene.blocks) {
    const { item } = block;
    if (block.last < first || block.first > last || item.start_s > scene.view.to_s) continue;
    if (!item.isOpen && Math.max(item.end_s, item.endHigh_s ?? 0) < scene.view.from_s) continue;
    const { top_px, height_px } = box(block, scene.rows);
    drawBlock(pen, scene, block, (at_s) => toX(scene, at_s), toY(scene, top_px) + 1, height_px - 3);
  }
}

/** The block at a point; of several, the one drawn last. */
export function hit(scene: Scene, left_px: number, top_px: number): Block | null {
  if (left_px < scene.gutter_px || top_px < AXIS_PX) return null;
  const at_px = top_px - AXIS_PX + scene.scroll_px;
  const row = rowAt(scene.rows, at_px);
  return (
    scene.blocks.findLast((block) => {
      if (row < block.first || row > block.last) return false;
      const { top_px: top, height_px } = box(block, scene.rows);
      const end_s = block.item.isOpen ? Infinity : Math.max(block.item.end_s, block.item.endHigh_s ?? 0);
      const isThere = at_px >= top && at_px < top + height_px;
      return isThere && left_px >= toX(scene, block.item.start_s) - 3 && left_px <= toX(scene, end_s) + 3;
    }) ?? null
  );
}
