import type { Translate } from "../../i18n";
import { clock } from "../../i18n/format";
import { currentLanguage } from "../../i18n";
import type { Item } from "./items";
import { lookOf } from "./palette";
import type { Key } from "./texts";

export function nameOf(item: Item, t: Translate<Key>): string {
  return item.job === null ? t("otherTenant") : item.name || item.job;
}

export function whatOf(item: Item, t: Translate<Key>): string {
  const look = lookOf(item);
  return look === "other" ? t(item.kind === "running" ? "look.running" : "look.over") : t(`look.${look}` as Key);
}

export function startOf(item: Item, t: Translate<Key>): string {
  return between(item.start_s, item.startHigh_s, t);
}

export function endOf(item: Item, t: Translate<Key>): string {
  return item.isOpen ? t("endUnknown") : between(item.end_s, item.endHigh_s, t);
}

function between(low_s: number, high_s: number | null, t: Translate<Key>): string {
  const [low, high] = [clock(low_s), high_s === null ? "" : clock(high_s)];
  return high === "" || high === low ? low : t("range", { low, high });
}

/** Names of the cards; of more than four, the first, the last and the number. */
export function cardsOf(item: Item): string {
  const { cards } = item;
  return cards.length <= 4 ? cards.join(", ") : `${cards[0]} … ${cards.at(-1)} (${cards.length})`;
}

/** Label of an axis tick, with the precision of its step. */
export function tickLabel(at_s: number, step_s: number, isDay: boolean): string {
  const then = new Date(at_s * 1000);
  if (isDay) return then.toLocaleDateString(currentLanguage(), { month: "short", day: "numeric" });
  const second = step_s < 60 ? ({ second: "2-digit" } as const) : {};
  return then.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...second });
}
