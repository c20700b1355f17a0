import { useTexts } from "../../i18n";
import { percent } from "../../i18n/format";
import { Chart } from "../../ui/Chart";
import { DataTable } from "../../ui/DataTable";
import { ErrorBox } from "../../ui/ErrorBox";
import { Panel } from "../../ui/Panel";
import styles from "./Policy.module.css";
import { type Goals, useGoals } from "./queries";
import { deadlineCourse, mean, serviceCourses } from "./sums";
import { text } from "./texts";

const COLOURS = ["--bar-util", "--share", "--info", "--warn", "--good", "--bad"];

/** Weights, goals, and how far they are met. */
export function GoalsPanel() {
  const say = useTexts(text);
  const goals = useGoals();
  return (
    <Panel title={say("goals")} note={say("goalsNote")}>
      {goals.error && <ErrorBox error={goals.error} onRetry={() => void goals.refetch()} />}
      {goals.data && (goals.data.tenants.length === 0 ? <p className={styles.since}>{say("noGoals")}</p> : <Told goals={goals.data} />)}
    </Panel>
  );
}

function Told({ goals }: { goals: Goals }) {
  const say = useTexts(text);
  return (
    <>
      <DataTable
        label={say("goals")} rows={goals.tenants} rowKey={(row) => row.tenant}
        columns={[
          { name: say("tenant"), isHead: true, cell: (row) => row.tenant },
          { name: say("weight"), isNumber: true, cell: (row) => row.weight ?? "–" },
          { name: say("jobs"), isNumber: true, cell: (row) => row.jobs },
          {
            name: say("met"), isNumber: true,
            cell: (row) => (row.deadline_ratio === null ? "–" : `${percent(row.deadline_ratio)} (${row.deadlines_met}/${row.deadlines_met + row.deadlines_missed})`),
          },
          { name: say("attainment"), isNumber: true, cell: (row) => percent(row.attainment_ratio) },
        ]}
      />
      <Courses goals={goals} />
    </>
  );
}

function Courses({ goals }: { goals: Goals }) {
  const say = useTexts(text);
  const deadlines = deadlineCourse(goals);
  const met = serviceCourses(goals, "attainment_ratio");
  const weights = serviceCourses(goals, "weight");
  const names = new Map(goals.jobs.map((job) => [job.job, job.name]));
  const lines = (jobs: Map<string, (number | null)[]>) =>
    [...jobs].slice(0, COLOURS.length).map(([job, values], at) => ({ label: names.get(job) ?? job, values, color: COLOURS[at]! }));
  return (
    <div className={styles.charts}>
      {deadlines.x_s.length > 1 && (
        <Chart
          title={say("deadlines")} summary={say("deadlinesSay", { met: deadlines.met, all: deadlines.all })} x_s={deadlines.x_s} range={[0, 1]} format={percent}
          lines={[{ label: say("met"), values: deadlines.values, color: "--good" }]}
        />
      )}
      {met.x_s.length > 1 && met.jobs.size > 0 && (
        <Chart
          title={say("services")} summary={`${say("servicesSay", { mean: percent(mean([...met.jobs.values()].flat())) })}`}
          x_s={met.x_s} range={[0, 1]} format={percent} lines={lines(met.jobs)}
        />
      )}
      {weights.x_s.length > 1 && weights.jobs.size > 0 && (
        <Chart title={say("weights")} summary={say("weightsSay", { n: weights.jobs.size })} x_s={weights.x_s} lines={lines(weights.jobs)} />
      )}
    </div>
  );
}
