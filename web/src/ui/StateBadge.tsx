import { type CommonKey, useT } from "../i18n";
import { Badge, type Tone } from "./Badge";

const TONES: Record<string, Tone> = {
  held: "warn", pending: "plain", starting: "info", running: "accent", stopping: "info", preempting: "warn", lost: "bad",
  succeeded: "good", failed: "bad", cancelled: "plain", timed_out: "bad",
};

/** The state of a job, marked if hang detection warns about it. */
export function StateBadge({ state, hangs = [] }: { state: string; hangs?: readonly { rule: string }[] }) {
  const t = useT();
  const word = state in TONES ? t(`state.${state}` as CommonKey) : state;
  if (!hangs.length) return <Badge tone={TONES[state] ?? "plain"}>{word}</Badge>;
  const warning = t("state.hangWarning", { rules: hangs.map((one) => one.rule).join(", ") });
  return <span title={warning} aria-label={`${word}, ${warning}`}><Badge tone="bad">{word} ⚠</Badge></span>;
}
