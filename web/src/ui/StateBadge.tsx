import { type CommonKey, useT } from "../i18n";
import { Badge, type Tone } from "./Badge";

const TONES: Record<string, Tone> = {
  held: "warn", pending: "plain", starting: "info", running: "accent", stopping: "info", preempting: "warn", lost: "bad",
  succeeded: "good", failed: "bad", cancelled: "plain", timed_out: "bad",
};

/** The state of a job. */
export function StateBadge({ state }: { state: string }) {
  const t = useT();
  return <Badge tone={TONES[state] ?? "plain"}>{state in TONES ? t(`state.${state}` as CommonKey) : state}</Badge>;
}
