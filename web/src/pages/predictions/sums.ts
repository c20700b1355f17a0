// Chart data computed from the service's responses.
import type { Schemas } from "../../api/client";
import type { XySeries } from "../../ui/XyPlot";

export type Series = Schemas["PredictionSeriesView"];
export type Calibration = Schemas["PredictionsView"]["calibration"];

const COLOURS = ["--bar-util", "--share", "--warn", "--info", "--good", "--bad"];

/** Colour of a source, the same in all charts. */
export function colourOf(sources: readonly string[], source: string): string {
  return COLOURS[Math.max(0, sources.indexOf(source)) % COLOURS.length]!;
}

export function sourcesOf(series: Series): string[] {
  return [...new Set(series.lines.map((line) => line.source))].sort();
}

export function scatter(series: Series): XySeries[] {
  const sources = sourcesOf(series);
  return sources.map((source) => {
    // The axes are logarithmic, so a run time of zero is drawn at 0.1 s.
    const own = series.points.filter((point) => point.source === source);
    const drawn = (value: number) => Math.max(0.1, value);
    return {
      label: source, color: colourOf(sources, source),
      x: own.map((point) => drawn(point.predicted_s)), y: own.map((point) => drawn(point.truth_s)),
    };
  });
}

/** Median error over time, one line per source. Spans without ended runs have no point. */
export function errorLines(series: Series): XySeries[] {
  const sources = sourcesOf(series);
  return sources.map((source) => {
    const own = series.series.filter((point) => point.source === source && point.median_ratio !== null).sort((a, b) => a.at_s - b.at_s);
    return { label: source, color: colourOf(sources, source), x: own.map((point) => point.at_s), y: own.map((point) => point.median_ratio!) };
  });
}

export function calibrationLines(points: Calibration, sources: readonly string[]): XySeries[] {
  const found = [...new Set(points.map((point) => point.source))].sort();
  return found.map((source) => {
    const own = points.filter((point) => point.source === source).sort((a, b) => a.level - b.level);
    return { label: source, color: colourOf(sources, source), x: own.map((point) => point.level), y: own.map((point) => point.observed) };
  });
}

export interface Summary {
  runs: number;
  median_ratio: number | null;
  within_p90: number | null;
  bias: number | null;
}

/** Computed from the runs in the response: all runs, or an even sample if there are many. */
export function summarize(series: Series): Summary {
  const { points } = series;
  const fraction = (matches: (point: Series["points"][number]) => boolean) => (points.length > 0 ? points.filter(matches).length / points.length : null);
  return {
    runs: series.count,
    median_ratio: median(points.filter((point) => point.truth_s > 0).map((point) => Math.abs(point.predicted_s - point.truth_s) / point.truth_s)),
    within_p90: fraction((point) => point.truth_s <= point.high_s),
    bias: median(points.filter((point) => point.truth_s > 0 && point.predicted_s > 0).map((point) => Math.log(point.truth_s / point.predicted_s))),
  };
}

function median(values: number[]): number | null {
  if (values.length === 0) return null;
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
