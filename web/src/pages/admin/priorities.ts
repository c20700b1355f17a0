import type { Translate } from "../../i18n";
import type { text } from "./texts";

const NAMED = ["low", "normal", "high", "urgent"] as const;
type Named = (typeof NAMED)[number];

/** The named priorities, and the current one if it is an integer. */
export const choices = (current?: string | number | null): string[] => {
  const now = current === undefined || current === null ? "" : `${current}`;
  return now === "" || NAMED.includes(now as Named) ? [...NAMED] : [...NAMED, now];
};

/** A priority as shown: its name where it has one. */
export const shown = (priority: string, t: Translate<keyof (typeof text)["en"]>): string =>
  NAMED.includes(priority as Named) ? t(`priority.${priority as Named}`) : priority;
