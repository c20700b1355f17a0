import type { Say } from "../../i18n";
import { clock } from "../../i18n/format";
import { currentLanguage } from "../../i18n";
import type { Item } from "./items";
import { lookOf } from "./palette";
import type { Key } from "./texts";

export function nameOf(item: Item, say: Say<Key>): string {
  return item.job === null ? say("otherTenant") : item.name || item.job;
}

export function whatOf(item: Item, say: Say<Key>): string {
  const look = lookOf(item);
  return look === "other" ? say(item.kind === "running" ? "look.running" : "look.over") : say(`look.${look}` as Key);
}

export function startOf(item: Item, say: Say<Key>): string {
  return between(item.start_s, item.startHigh_s, say);
}

export function endOf(item: Item, say: Say<Key>): string {
  return item.isOpen ? say("endUnknown") : between(item.end_s, item.endHigh_s, say);
}

function between(low_s: number, high_s: number | null, say: Say<Key>): string {
  const [low, high] = [clock(low_s), high_s === null ? "" : clock(high_s)];
  return high === "" || high === low ? low : say("range", { low, high });
}

/** Many cards as the first, the last and how many. */
export function cardsOf(item: Item): string {
  const { cards } = item;
  return cards.length <= 4 ? cards.join(", ") : `${cards[0]} … ${cards.at(-1)} (${cards.length})`;
}

/** A mark of the axis: as much of the time as its step needs. */
export function tickLabel(at_s: number, step_s: number, isDay: boolean): string {
  const then = new Date(at_s * 1000);
  if (isDay) return then.toLocaleDateString(currentLanguage(), { month: "short", day: "numeric" });
  const second = step_s < 60 ? ({ second: "2-digit" } as const) : {};
  return then.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...second });
}
