import { useTexts } from "../../i18n";
import { span } from "../../i18n/format";
import { type Column, DataTable } from "../../ui/DataTable";
import { Panel } from "../../ui/Panel";
import { Time } from "../../ui/Time";
import styles from "./Policy.module.css";
import type { Policy } from "./queries";
import { text } from "./texts";

type Overstay = "never" | "checkpointed" | "always";
const PARTS = ["order", "plan", "place", "divide"] as const;

function Preemptible({ lane }: { lane: Policy["lanes"][number] }) {
  const t = useTexts(text);
  if (!lane.preemptible || lane.max_lost_s === null) return <>{t(lane.preemptible ? "yes" : "no")}</>;
  return <>{t("lane.maxLost", { time: span(lane.max_lost_s) })}</>;
}

/** The current policies, and the revision that set them. */
export function Now({ policy }: { policy: Policy }) {
  const t = useTexts(text);
  const columns: Column<Policy["lanes"][number]>[] = [
    { name: t("lane"), isHead: true, cell: (lane) => lane.name },
    { name: t("lane.jobs"), cell: (lane) => <LaneRule lane={lane} /> },
    { name: t("lane.preemptible"), cell: (lane) => <Preemptible lane={lane} /> },
    { name: t("lane.limit"), isNumber: true, cell: (lane) => (lane.limit_ratio < 1 ? `${Math.round(lane.limit_ratio * 100)} %` : "–") },
  ];
  return (
    <Panel title={t("now")}>
      <p className={styles.mode}>{policy.automatic ? `${policy.mode} (${policy.automatic.mode})` : policy.mode}</p>
      {policy.automatic && <Automatic chosen={policy.automatic} />}
      <dl className={styles.parts}>
        {PARTS.map((part) => <div key={part}><dt>{t(part)}</dt><dd><code>{policy[part]}</code></dd></div>)}
        <div><dt>{t("preemption")}</dt><dd><Preemption setting={policy.preemption} /></dd></div>
        <div><dt>{t("overstay")}</dt><dd>{t(`overstay.${overstayOf(policy)}`)}</dd></div>
      </dl>
      <DataTable label={t("lanes")} rows={policy.lanes} columns={columns} rowKey={(lane) => lane.name} />
      <p className={styles.since}>
        {policy.revision === 0 ? t("never") : (
          <>{t("since", { revision: policy.revision, by: policy.by || "–" })} <Time at_s={policy.since_s} /> {policy.note && `– ${policy.note}`}</>
        )}
      </p>
    </Panel>
  );
}

/** What an automatic mode chose, and why. */
function Automatic({ chosen }: { chosen: NonNullable<Policy["automatic"]> }) {
  const t = useTexts(text);
  return (
    <>
      <p>{t("chosen", { mode: chosen.mode, why: chosen.why })} <Time at_s={chosen.since_s} /></p>
      {chosen.next_mode !== "" && (
        <p>{t("nextMode", { mode: chosen.next_mode, why: chosen.next_why })} {chosen.next_s != null && <Time at_s={chosen.next_s} />}</p>
      )}
      <p className={styles.since}>{t("changes", { n: chosen.changes, most: chosen.max_changes })}</p>
    </>
  );
}

/** Which guests are preempted when they outlive their time. */
export function overstayOf(policy: Policy): Overstay {
  return ((policy.preemption as { overstay?: Overstay }).overstay ?? "checkpointed");
}

function LaneRule({ lane }: { lane: Policy["lanes"][number] }) {
  const t = useTexts(text);
  const gpus = lane.max_gpus !== null
    ? t("lane.between", { low: lane.min_gpus, high: lane.max_gpus })
    : lane.min_gpus > 0 ? t("lane.from", { low: lane.min_gpus }) : "";
  const parts = [gpus, lane.tenants.length > 0 && t("lane.tenants", { names: lane.tenants.join(", ") }),
    lane.priorities.length > 0 && t("lane.priorities", { names: lane.priorities.join(", ") })].filter(Boolean);
  return <>{parts.join("; ") || t("lane.rest")}</>;
}

function Preemption({ setting }: { setting: Policy["preemption"] }) {
  const t = useTexts(text);
  const { by, min_run_s, most_per_job } = setting as { by?: string; min_run_s?: number; most_per_job?: number };
  if (!by || by === "none") return <>{t("preemption.none")}</>;
  return <>{t("preemption.by", { by, run: span(min_run_s ?? 0), most: most_per_job ?? "–" })}</>;
}
