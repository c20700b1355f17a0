// Mouse, touch and wheel. The wheel scrolls through the cards. It zooms with Ctrl, over the axis, or if all cards are
// visible. One finger or the mouse moves sideways, two fingers zoom.
import { AXIS_PX } from "./draw";
import type { Stage } from "./stage";

const CLICK_PX = 5;
const WHEEL = 0.0016;
const LINE_PX = 16; // some browsers report wheel movement in lines

export function bindGestures(scroller: HTMLElement, stage: Stage): () => void {
  const pointers = new Map<number, { x: number; y: number }>();
  let travelled_px = 0;
  let isSideways = false;

  const at = (event: { clientX: number; clientY: number }) => {
    const box = scroller.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  const wheel = (event: WheelEvent) => {
    const { x, y } = at(event);
    const unit = event.deltaMode === 1 ? LINE_PX : 1;
    const fits = scroller.scrollHeight <= scroller.clientHeight + 1;
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (event.ctrlKey || event.metaKey || (!event.shiftKey && (fits || y < AXIS_PX) && Math.abs(event.deltaY) > Math.abs(event.deltaX))) {
      event.preventDefault();
      stage.zoom(Math.exp(-event.deltaY * unit * WHEEL), x);
    } else if (sideways !== 0 && (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))) {
      event.preventDefault();
      stage.pan(sideways * unit);
    }
  };

  const onPress = (event: PointerEvent) => {
    if (event.button !== 0) return;
    pointers.set(event.pointerId, at(event));
    travelled_px = 0;
    isSideways = false;
  };

  const onMove = (event: PointerEvent) => {
    const before = pointers.get(event.pointerId);
    const now = at(event);
    if (!before) return stage.hover(stage.point(now.x, now.y));
    pointers.set(event.pointerId, now);
    travelled_px += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    if (pointers.size === 2) return onPinch(event.pointerId, before, now);
    if (travelled_px < CLICK_PX) return;
    if (!isSideways) {
      isSideways = true;
      scroller.setPointerCapture(event.pointerId);
    }
    stage.pan(before.x - now.x);
    if (event.pointerType === "mouse") scroller.scrollTop -= now.y - before.y; // touch scrolls natively
  };

  const onPinch = (id: number, before: { x: number }, now: { x: number }) => {
    const other = [...pointers].find(([pointer]) => pointer !== id)![1];
    const [wide, narrow] = [Math.abs(now.x - other.x), Math.abs(before.x - other.x)];
    if (narrow > 4 && wide > 4) stage.zoom(wide / narrow, (now.x + other.x) / 2);
  };

  const onRelease = (event: PointerEvent) => {
    const wasPressed = pointers.delete(event.pointerId);
    if (!wasPressed || event.type !== "pointerup" || travelled_px >= CLICK_PX) return;
    const { x, y } = at(event);
    const block = stage.point(x, y);
    stage.focus(block);
    stage.handlers.onChoose(block);
  };

  const onLeave = () => stage.hover(null);
  const onScroll = () => stage.paint();

  scroller.addEventListener("wheel", wheel, { passive: false });
  scroller.addEventListener("pointerdown", onPress);
  scroller.addEventListener("pointermove", onMove);
  scroller.addEventListener("pointerup", onRelease);
  scroller.addEventListener("pointercancel", onRelease);
  scroller.addEventListener("pointerleave", onLeave);
  scroller.addEventListener("scroll", onScroll, { passive: true });
  return () => {
    scroller.removeEventListener("wheel", wheel);
    scroller.removeEventListener("pointerdown", onPress);
    scroller.removeEventListener("pointermove", onMove);
    scroller.removeEventListener("pointerup", onRelease);
    scroller.removeEventListener("pointercancel", onRelease);
    scroller.removeEventListener("pointerleave", onLeave);
    scroller.removeEventListener("scroll", onScroll);
  };
}
