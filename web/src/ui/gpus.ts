// What a job asks for of the cards. Without words, so that it is the same in every language.
import type { Schemas } from "../api/client";
import { count, gib } from "../i18n/format";

type Asks = Pick<Schemas["JobView"], "gpus" | "share">;
type Share = NonNullable<Asks["share"]>;

/** For a narrow column: "8"; of a share the part of the SMs, or else of the memory: "40%", "2 × 10 GiB". */
export function gpusOf({ gpus, share }: Asks): string {
  if (!share) return count(gpus);
  const part = share.sm ? sms(share.sm) : memory(share);
  return gpus > 1 ? `${count(gpus)} × ${part}` : part;
}

/** "40% SM · 8 GiB · isolated"; of whole cards their number. */
export function gpusInFull({ gpus, share }: Asks): string {
  if (!share) return count(gpus);
  const parts = [share.sm && `${sms(share.sm)} SM`, memory(share, " VRAM"), share.isolation === "isolated" && share.isolation];
  return (gpus > 1 ? `${count(gpus)} × ` : "") + parts.filter(Boolean).join(" · ");
}

/** To a tenth: a share may be an eighth. */
function sms(ratio: number): string {
  return `${Math.round(ratio * 1000) / 10}%`;
}

function memory({ memory: asked }: Share, unit = ""): string {
  if (asked == null) return "";
  return typeof asked === "string" ? asked + unit : `${gib(asked)} GiB`;
}
