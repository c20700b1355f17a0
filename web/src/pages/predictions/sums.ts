// What the page draws, from what the service tells.
import type { Schemas } from "../../api/client";
import type { XySeries } from "../../ui/XyPlot";

export type Series = Schemas["PredictionSeriesView"];
export type Calibration = Schemas["PredictionsView"]["calibration"];

const COLOURS = ["--bar-util", "--share", "--warn", "--info", "--good", "--bad"];

/** Every source has its colour, the same in all drawings. */
export function colourOf(sources: readonly string[], source: string): string {
  return COLOURS[Math.max(0, sources.indexOf(source)) % COLOURS.length]!;
}

export function sourcesOf(series: Series): string[] {
  return [...new Set(series.lines.map((line) => line.source))].sort();
}

export function scatter(series: Series): XySeries[] {
  const sources = sourcesOf(series);
  return sources.map((source) => {
    // By logarithms, so what took no time at all is drawn at a tenth of a second.
    const own = series.points.filter((point) => point.source === source);
    const drawn = (value: number) => Math.max(0.1, value);
    return {
      label: source, color: colourOf(sources, source),
      x: own.map((point) => drawn(point.predicted_s)), y: own.map((point) => drawn(point.truth_s)),
    };
  });
}

/** One line a source; spans in which no run of it ended have no point. */
export function courses(series: Series): XySeries[] {
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

export interface Whole {
  runs: number;
  median_ratio: number | null;
  within_p90: number | null;
  bias: number | null;
}

/** Of the single runs that are told of: all of them, or an even choice where there are many. */
export function whole(series: Series): Whole {
  const { points } = series;
  const part = (is: (point: Series["points"][number]) => boolean) => (points.length > 0 ? points.filter(is).length / points.length : null);
  return {
    runs: series.count,
    median_ratio: median(points.filter((one) => one.truth_s > 0).map((one) => Math.abs(one.predicted_s - one.truth_s) / one.truth_s)),
    within_p90: part((one) => one.truth_s <= one.high_s),
    bias: median(points.filter((one) => one.truth_s > 0 && one.predicted_s > 0).map((one) => Math.log(one.truth_s / one.predicted_s))),
  };
}

function median(values: number[]): number | null {
  if (values.length === 0) return null;
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
