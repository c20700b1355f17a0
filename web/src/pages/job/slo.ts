// The SLO of a job as text, with its state.
import { clock, percent } from "../../i18n/format";
import type { Job } from "./queries";
import type { text } from "./texts";

type Slo = NonNullable<Job["slo"]>;
type Name = keyof typeof text.en;

/** "deadline 21:41: missed · latency 20 ms · unknown: no report". */
export function sloText(slo: Slo, t: (name: Name, values?: Record<string, string | number>) => string): string {
  return [
    slo.deadline_s === null ? "" : t(deadlineText(slo), { when: clock(slo.deadline_s) }),
    slo.latency_s === null ? "" : t("sloLatency", { n: Number((slo.latency_s * 1000).toPrecision(6)) }),
    slo.throughput === null ? "" : t("sloThroughput", { n: slo.throughput }),
    slo.availability === null ? "" : t("sloAvailability", { ratio: Number((slo.availability * 100).toPrecision(6)) }),
    slo.unknown ? t("sloUnknown") : "",
    slo.attainment_ratio === null ? "" : t("sloAttained", { ratio: percent(slo.attainment_ratio) }),
  ].filter(Boolean).join(" · ");
}

function deadlineText(slo: Slo): Name {
  if (slo.deadline_met === null) return "sloDeadline";
  return slo.deadline_met ? "sloDeadlineMet" : "sloDeadlineMissed";
}
