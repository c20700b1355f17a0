// The GPU request of a job, in the same form in every language.
import type { Schemas } from "../api/client";
import { count, gib } from "../i18n/format";

type GpuRequest = Pick<Schemas["JobView"], "gpus" | "share">;
type Share = NonNullable<GpuRequest["share"]>;

/** Short form for a narrow column: "8"; of a share the SMs, otherwise the memory: "40%", "2 × 10 GiB". */
export function gpusOf({ gpus, share }: GpuRequest): string {
  if (!share) return count(gpus);
  const part = share.sm ? sms(share.sm) : memory(share);
  return gpus > 1 ? `${count(gpus)} × ${part}` : part;
}

/** Full form: "40% SM · 8 GiB · isolated"; for whole cards their number. */
export function gpusInFull({ gpus, share }: GpuRequest): string {
  if (!share) return count(gpus);
  const parts = [share.sm && `${sms(share.sm)} SM`, memory(share, " VRAM"), share.isolation === "isolated" && share.isolation];
  return (gpus > 1 ? `${count(gpus)} × ` : "") + parts.filter(Boolean).join(" · ");
}

/** One decimal, because a share may be an eighth. */
function sms(ratio: number): string {
  return `${Math.round(ratio * 1000) / 10}%`;
}

function memory({ memory: requested }: Share, unit = ""): string {
  if (requested == null) return "";
  return typeof requested === "string" ? requested + unit : `${gib(requested)} GiB`;
}
