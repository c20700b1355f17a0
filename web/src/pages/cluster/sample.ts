import type { Card } from "./sums";

/** The latest sample of a card. Values that the card does not report are null. */
export interface Sample {
  utilisation_ratio: number | null;
  memory_used_bytes: number | null;
  power_w: number | null;
  temperature_c: number | null;
}

export function sampleOf(card: Card): Sample | null {
  if (!card.sample) return null;
  const number = (name: string) => {
    const value = card.sample?.[name];
    return typeof value === "number" ? value : null;
  };
  return {
    utilisation_ratio: number("utilisation_ratio"),
    memory_used_bytes: number("memory_used_bytes"),
    power_w: number("power_w"),
    temperature_c: number("temperature_c"),
  };
}
