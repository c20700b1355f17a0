// The GPU request of a job, in the same form in every language.
import type { Schemas } from "../api/client";
import { count, gib } from "../i18n/format";

type GpuRequest = Pick<Schemas["JobView"], "gpus" | "share">;
type Share = NonNullable<GpuRequest["share"]>;

/**
 * Short form for a narrow column. Whole cards: their number, "8". A share: its SMs, "40%", or its memory if it requests no
 * SMs, "2 × 10 GiB".
 */
export function gpusInShort({ gpus, share }: GpuRequest): string {
  if (!share) return count(gpus);
  const part = share.sm ? smPercent(share.sm) : memory(share);
  return gpus > 1 ? `${count(gpus)} × ${part}` : part;
}

/** Full form. Whole cards: their number. A share: "40% SM · 8 GiB · isolated". */
export function gpusInFull({ gpus, share }: GpuRequest): string {
  if (!share) return count(gpus);
  const parts = [share.sm && `${smPercent(share.sm)} SM`, memory(share, " VRAM"), share.isolation === "isolated" && share.isolation];
  return (gpus > 1 ? `${count(gpus)} × ` : "") + parts.filter(Boolean).join(" · ");
}

/** One decimal, because a share may be an eighth. */
function smPercent(ratio: number): string {
  return `${Math.round(ratio * 1000) / 10}%`;
}

/** A fraction of the card's memory ("30%") is text, an amount is in bytes. */
function memory({ memory: requested }: Share, unit = ""): string {
  if (requested == null) return "";
  return typeof requested === "string" ? requested + unit : `${gib(requested)} GiB`;
}
