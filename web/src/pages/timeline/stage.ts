// View state of the chart, outside of React: a gesture repaints the canvas once per frame without a render.
import { AXIS_PX, draw, hit, type Band, type Scene } from "./draw";
import { type Block, heightOf, type Row } from "./layout";
import type { Palette } from "./palette";
import { around, moved, withSpanVisible, time, type View, width_s, zoomed } from "./scale";

export interface Model {
  rows: readonly Row[];
  blocks: readonly Block[];
  bands: readonly Band[];
}

interface StageHandlers {
  onView: (view: View) => void;
  onChoose: (block: Block | null) => void;
  onFocus: (block: Block | null) => void;
}

const SETTLE_MS = 150;
const NARROW_PX = 600;

export class Stage {
  view: View;
  isFollowing = true;
  ahead_s = 0; // the service's clock minus the browser's
  #model: Model = { rows: [], blocks: [], bands: [] };
  #palette: Palette | null = null;
  #canvas: HTMLCanvasElement | null = null;
  #scroller: HTMLElement | null = null;
  #focused: Block | null = null;
  #hovered: Block | null = null;
  #chosen: string | null = null;
  #isDue = false;
  #settle: ReturnType<typeof setTimeout> | undefined;
  #texts: Pick<Scene, "label" | "other"> = { label: String, other: "" };
  handlers: StageHandlers = { onView: () => {}, onChoose: () => {}, onFocus: () => {} };

  constructor(span_s: number) {
    this.view = around(this.now_s(), span_s);
  }

  now_s(): number {
    return Date.now() / 1000 + this.ahead_s;
  }

  get model(): Model {
    return this.#model;
  }

  get focused(): Block | null {
    return this.#focused;
  }

  /** Paints until the returned function is called. */
  attach(canvas: HTMLCanvasElement, scroller: HTMLElement): () => void {
    [this.#canvas, this.#scroller] = [canvas, scroller];
    const observer = new ResizeObserver(() => this.paint());
    observer.observe(scroller);
    let previous_s = this.now_s();
    const timer = setInterval(() => {
      const now_s = this.now_s();
      if (this.isFollowing) this.view = moved(this.view, now_s - previous_s);
      previous_s = now_s;
      this.paint();
    }, 1000);
    this.paint();
    return () => {
      observer.disconnect();
      clearInterval(timer);
      clearTimeout(this.#settle);
      this.#canvas = this.#scroller = null;
    };
  }

  show(model: Model): void {
    const key = this.#focused?.item.key;
    const first = this.#focused?.first;
    this.#model = model;
    this.#hovered = null;
    this.#focused = key === undefined ? null : (model.blocks.find((block) => block.item.key === key && block.first === first) ?? null);
    this.paint();
  }

  setStyle(palette: Palette, texts: Pick<Scene, "label" | "other">): void {
    [this.#palette, this.#texts] = [palette, texts];
    this.paint();
  }

  choose(key: string | null): void {
    this.#chosen = key;
    this.paint();
  }

  setView(view: View, isFollowing = false): void {
    this.view = view;
    this.isFollowing = isFollowing;
    clearTimeout(this.#settle);
    this.#settle = setTimeout(() => this.handlers.onView(this.view), SETTLE_MS);
    this.paint();
  }

  span(span_s: number): void {
    this.setView(around(this.now_s(), span_s), true);
  }

  zoom(factor: number, at_px?: number): void {
    const { left_px, width_px } = this.#plot();
    const now_s = this.now_s();
    const isNowVisible = now_s > this.view.from_s && now_s < this.view.to_s;
    // Buttons and keys zoom around the current time if it is visible.
    const at_s = at_px !== undefined ? time(this.view, width_px, at_px - left_px) : isNowVisible ? now_s : (this.view.from_s + this.view.to_s) / 2;
    this.setView(zoomed(this.view, factor, at_s), this.isFollowing && isNowVisible);
  }

  pan(by_px: number): void {
    this.setView(moved(this.view, (by_px / this.#plot().width_px) * width_s(this.view)));
  }

  point(left_px: number, top_px: number): Block | null {
    const scene = this.#scene();
    return scene && hit(scene, left_px, top_px);
  }

  hover(block: Block | null): void {
    if (block === this.#hovered) return;
    this.#hovered = block;
    this.paint();
  }

  focus(block: Block | null): void {
    this.#focused = block;
    if (block) this.#scrollTo(block);
    this.handlers.onFocus(block);
    this.paint();
  }

  paint(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      this.#paintNow();
    });
  }

  get height_px(): number {
    return heightOf(this.#model.rows) + AXIS_PX;
  }

  #scrollTo(block: Block): void {
    const view = withSpanVisible(this.view, block.item.start_s, Math.max(block.item.end_s, block.item.start_s + 1));
    if (view !== this.view) this.setView(view);
    const row = this.#model.rows[block.first];
    const scroller = this.#scroller;
    if (!row || !scroller) return;
    const visible_px = scroller.clientHeight - AXIS_PX - row.height_px;
    if (row.top_px < scroller.scrollTop || row.top_px > scroller.scrollTop + visible_px) scroller.scrollTop = row.top_px - visible_px / 2;
  }

  #plot(): { left_px: number; width_px: number } {
    const total_px = this.#scroller?.clientWidth ?? 1000;
    const left_px = total_px < NARROW_PX ? 44 : 88;
    return { left_px, width_px: Math.max(1, total_px - left_px) };
  }

  #scene(): Scene | null {
    if (!this.#scroller || !this.#palette) return null;
    return {
      ...this.#model, ...this.#texts, view: this.view, now_s: this.now_s(), scroll_px: this.#scroller.scrollTop,
      width_px: this.#scroller.clientWidth, height_px: this.#scroller.clientHeight, gutter_px: this.#plot().left_px,
      chosen: this.#chosen, focused: this.#focused, hovered: this.#hovered, palette: this.#palette,
    };
  }

  #paintNow(): void {
    const scene = this.#scene();
    const canvas = this.#canvas;
    const pen = canvas?.getContext("2d");
    if (!scene || !canvas || !pen) return;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(scene.width_px * ratio), Math.round(scene.height_px * ratio)];
    if (canvas.width !== width || canvas.height !== height) {
      [canvas.width, canvas.height] = [width, height];
      canvas.style.width = `${scene.width_px}px`;
      canvas.style.height = `${scene.height_px}px`;
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw(pen, scene);
  }
}
