// What a preview and goals come to.
import type { Goals, Preview } from "./queries";

export interface Shift {
  job: string;
  before_s: number | null;
  after_s: number | null;
  /** Below zero: sooner. Null: one of them is not known. */
  by_s: number | null;
}

const NOTICED_S = 1;

/** Jobs whose start would move, the largest moves first. */
export function shifts(preview: Preview): Shift[] {
  return preview.moved
    .map(({ job, before_s, after_s }) => ({
      job, before_s, after_s, by_s: before_s === null || after_s === null ? null : after_s - before_s,
    }))
    .filter((one) => one.by_s === null || Math.abs(one.by_s) >= NOTICED_S)
    .sort((a, b) => Math.abs(b.by_s ?? Infinity) - Math.abs(a.by_s ?? Infinity));
}

export function isSame(preview: Preview): boolean {
  return preview.starts.length === 0 && preview.preempted.length === 0 && shifts(preview).length === 0;
}

export interface Course {
  x_s: number[];
  values: (number | null)[];
}

/** Of all tenants: the part of the deadlines of each span that was met. */
export function deadlineCourse(goals: Goals): Course & { met: number; all: number } {
  const spans = new Map<number, { met: number; all: number }>();
  let [met, all] = [0, 0];
  for (const one of goals.deadlines) {
    const span = spans.get(one.at_s) ?? { met: 0, all: 0 };
    spans.set(one.at_s, { met: span.met + one.met, all: span.all + one.met + one.missed });
    met += one.met;
    all += one.met + one.missed;
  }
  const x_s = [...spans.keys()].sort((a, b) => a - b);
  return { x_s, values: x_s.map((at) => spans.get(at)!.met / spans.get(at)!.all), met, all };
}

/** Of each service over time, at the instants when somebody looked. */
export function serviceCourses(goals: Goals, what: "attainment_ratio" | "weight"): { x_s: number[]; jobs: Map<string, (number | null)[]> } {
  const x_s = [...new Set(goals.attainment.map((one) => one.at_s))].sort((a, b) => a - b);
  const at = new Map(x_s.map((one, index) => [one, index]));
  const jobs = new Map<string, (number | null)[]>();
  for (const one of goals.attainment) {
    if (one[what] == null) continue;
    const own = jobs.get(one.job) ?? new Array<number | null>(x_s.length).fill(null);
    own[at.get(one.at_s)!] = one[what];
    jobs.set(one.job, own);
  }
  return { x_s, jobs };
}

export function mean(values: readonly (number | null)[]): number | null {
  const told = values.filter((one) => one !== null);
  return told.length > 0 ? told.reduce((sum, one) => sum + one, 0) / told.length : null;
}
