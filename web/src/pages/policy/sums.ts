// Values derived from a preview and from goals.
import type { Goals, Preview } from "./queries";

export interface Shift {
  job: string;
  before_s: number | null;
  after_s: number | null;
  /** Negative: earlier. Null: one of the two is unknown. */
  by_s: number | null;
}

const MIN_SHIFT_S = 1;

/** Jobs whose start would change, the largest shifts first. */
export function shifts(preview: Preview): Shift[] {
  return preview.moved
    .map(({ job, before_s, after_s }) => ({
      job, before_s, after_s, by_s: before_s === null || after_s === null ? null : after_s - before_s,
    }))
    .filter((shift) => shift.by_s === null || Math.abs(shift.by_s) >= MIN_SHIFT_S)
    .sort((a, b) => Math.abs(b.by_s ?? Infinity) - Math.abs(a.by_s ?? Infinity));
}

export function isSame(preview: Preview): boolean {
  return preview.starts.length === 0 && preview.preempted.length === 0 && shifts(preview).length === 0;
}

export interface TimeSeries {
  x_s: number[];
  values: (number | null)[];
}

/** Fraction of all tenants' deadlines that were met, per time span. */
export function deadlineSeries(goals: Goals): TimeSeries & { met: number; all: number } {
  const spans = new Map<number, { met: number; all: number }>();
  let [met, all] = [0, 0];
  for (const bucket of goals.deadlines) {
    const span = spans.get(bucket.at_s) ?? { met: 0, all: 0 };
    spans.set(bucket.at_s, { met: span.met + bucket.met, all: span.all + bucket.met + bucket.missed });
    met += bucket.met;
    all += bucket.met + bucket.missed;
  }
  const x_s = [...spans.keys()].sort((a, b) => a - b);
  return { x_s, values: x_s.map((at) => spans.get(at)!.met / spans.get(at)!.all), met, all };
}

/** Values of each service over time, at the sampled instants. */
export function serviceSeries(goals: Goals, what: "attainment_ratio" | "weight"): { x_s: number[]; jobs: Map<string, (number | null)[]> } {
  const x_s = [...new Set(goals.attainment.map((sample) => sample.at_s))].sort((a, b) => a - b);
  const at = new Map(x_s.map((at_s, index) => [at_s, index]));
  const jobs = new Map<string, (number | null)[]>();
  for (const sample of goals.attainment) {
    if (sample[what] == null) continue;
    const own = jobs.get(sample.job) ?? new Array<number | null>(x_s.length).fill(null);
    own[at.get(sample.at_s)!] = sample[what];
    jobs.set(sample.job, own);
  }
  return { x_s, jobs };
}

export function mean(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length > 0 ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}
