import { useTexts } from "../../i18n";
import { percent } from "../../i18n/format";
import { Chart } from "../../ui/Chart";
import { DataTable } from "../../ui/DataTable";
import { ErrorBox } from "../../ui/ErrorBox";
import { Panel } from "../../ui/Panel";
import styles from "./Policy.module.css";
import { type Goals, useGoals } from "./queries";
import { deadlineSeries, mean, serviceSeries } from "./sums";
import { text } from "./texts";

const COLOURS = ["--bar-util", "--share", "--info", "--warn", "--good", "--bad"];

/** Weights, SLOs and their attainment. */
export function GoalsPanel() {
  const t = useTexts(text);
  const goals = useGoals();
  return (
    <Panel title={t("goals")} note={t("goalsNote")}>
      {goals.error && <ErrorBox error={goals.error} onRetry={() => void goals.refetch()} />}
      {goals.data && (goals.data.tenants.length === 0 ? <p className={styles.since}>{t("noGoals")}</p> : <GoalsTable goals={goals.data} />)}
    </Panel>
  );
}

function GoalsTable({ goals }: { goals: Goals }) {
  const t = useTexts(text);
  return (
    <>
      <DataTable
        label={t("goals")} rows={goals.tenants} rowKey={(row) => row.tenant}
        columns={[
          { name: t("tenant"), isHead: true, cell: (row) => row.tenant },
          { name: t("weight"), isNumber: true, cell: (row) => row.weight ?? "–" },
          { name: t("jobs"), isNumber: true, cell: (row) => row.jobs },
          {
            name: t("met"), isNumber: true,
            cell: (row) => (row.deadline_ratio === null ? "–" : `${percent(row.deadline_ratio)} (${row.deadlines_met}/${row.deadlines_met + row.deadlines_missed})`),
          },
          { name: t("attainment"), isNumber: true, cell: (row) => <Attainment row={row} /> },
        ]}
      />
      <GoalCharts goals={goals} />
    </>
  );
}

/** Services that nobody reports on are named: they count as neither met nor missed. */
function Attainment({ row }: { row: Goals["tenants"][number] }) {
  const t = useTexts(text);
  const unknown = row.unknown > 0 ? t("unknownServices", { n: row.unknown }) : "";
  if (row.attainment_ratio === null) return unknown || "–";
  return [percent(row.attainment_ratio), unknown].filter(Boolean).join(" · ");
}

function GoalCharts({ goals }: { goals: Goals }) {
  const t = useTexts(text);
  const deadlines = deadlineSeries(goals);
  const met = serviceSeries(goals, "attainment_ratio");
  const weights = serviceSeries(goals, "weight");
  const names = new Map(goals.jobs.map((job) => [job.job, job.name]));
  const lines = (jobs: Map<string, (number | null)[]>) =>
    [...jobs].slice(0, COLOURS.length).map(([job, values], at) => ({ label: names.get(job) ?? job, values, color: COLOURS[at]! }));
  return (
    <div className={styles.charts}>
      {deadlines.x_s.length > 1 && (
        <Chart
          title={t("deadlines")} summary={t("deadlinesCaption", { met: deadlines.met, all: deadlines.all })} x_s={deadlines.x_s} range={[0, 1]} format={percent}
          lines={[{ label: t("met"), values: deadlines.values, color: "--good" }]}
        />
      )}
      {met.x_s.length > 1 && met.jobs.size > 0 && (
        <Chart
          title={t("services")} summary={`${t("servicesCaption", { mean: percent(mean([...met.jobs.values()].flat())) })}`}
          x_s={met.x_s} range={[0, 1]} format={percent} lines={lines(met.jobs)}
        />
      )}
      {weights.x_s.length > 1 && weights.jobs.size > 0 && (
        <Chart title={t("weights")} summary={t("weightsCaption", { n: weights.jobs.size })} x_s={weights.x_s} lines={lines(weights.jobs)} />
      )}
    </div>
  );
}
