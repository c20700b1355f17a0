import { useTexts } from "../../i18n";
import { span } from "../../i18n/format";
import { Panel } from "../../ui/Panel";
import { Time } from "../../ui/Time";
import styles from "./Policy.module.css";
import type { Policy } from "./queries";
import { text } from "./texts";

const PARTS = ["order", "plan", "place", "divide"] as const;

/** What decides now, and since when. */
export function Now({ policy }: { policy: Policy }) {
  const say = useTexts(text);
  return (
    <Panel title={say("now")}>
      <p className={styles.mode}>{policy.mode}</p>
      <dl className={styles.parts}>
        {PARTS.map((part) => <div key={part}><dt>{say(part)}</dt><dd><code>{policy[part]}</code></dd></div>)}
        <div><dt>{say("preemption")}</dt><dd><Preemption of={policy.preemption} /></dd></div>
      </dl>
      <p className={styles.since}>
        {policy.revision === 0 ? say("never") : (
          <>{say("since", { revision: policy.revision, by: policy.by || "–" })} <Time at_s={policy.since_s} /> {policy.note && `– ${policy.note}`}</>
        )}
      </p>
    </Panel>
  );
}

function Preemption({ of }: { of: Policy["preemption"] }) {
  const say = useTexts(text);
  const { by, min_run_s, most_per_job } = of as { by?: string; min_run_s?: number; most_per_job?: number };
  if (!by || by === "none") return <>{say("preemption.none")}</>;
  return <>{say("preemption.by", { by, run: span(min_run_s ?? 0), most: most_per_job ?? "–" })}</>;
}
