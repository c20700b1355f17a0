import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useIsDark } from "../app/theme";
import { clock } from "../i18n/format";

export interface Line {
  label: string;
  values: (number | null)[];
  /** Name of a colour token, for example "--accent". */
  color: string;
}

export interface PlotProps {
  x_s: number[];
  lines: Line[];
  /** Minimum and maximum of the y axis; null: from the data. */
  range?: [number, number | null];
  format?: (value: number) => string;
  height_px?: number;
}

const MIN_LINE_POINTS = 3; // fewer values are drawn as points
const MIN_SPAN_S = 30;

/** uPlot chart. Created again only when its lines or the theme change; new values update the existing chart. */
export default function Plot({ x_s, lines, range = [0, null], format = String, height_px = 140 }: PlotProps) {
  const container = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const isDark = useIsDark();
  const shape = lines.map((line) => line.label + line.color).join("\n");
  const data = [x_s, ...lines.map((line) => line.values)] as uPlot.AlignedData;

  useEffect(() => {
    const element = container.current!;
    plot.current = new uPlot(options(element, lines, range, format, height_px), data, element);
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: height_px }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.current?.destroy();
    };
  }, [shape, isDark, height_px, range[0], range[1]]); // eslint-disable-line -- the effect below sets new values

  useEffect(() => plot.current?.setData(data), [x_s, lines]); // eslint-disable-line -- `data` depends on these
  return <div ref={container} />;
}

function options(
  at: HTMLElement, lines: Line[], [low, high]: [number, number | null], format: (value: number) => string, height: number,
): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const token = (name: string) => style.getPropertyValue(name).trim();
  const axis = { stroke: token("--text-3"), font: `11px ${token("--font")}`, ticks: { show: false } };
  const grid = { stroke: token("--line"), width: 1 };
  return {
    width: at.clientWidth, height, legend: { show: false }, cursor: { y: false, points: { size: 6 } }, padding: [8, 8, 0, 0],
    scales: { x: { range: (plot) => timeRange(plot.data[0]) }, y: { range: (_, __, top) => [low, high ?? Math.max(low + 1, (top ?? 1) * 1.1)] } },
    axes: [
      { ...axis, grid: { show: false }, size: 22, space: 64, values: (_, at_s, __, ___, step_s) => at_s.map((tick_s) => label(tick_s, step_s)) },
      { ...axis, grid, size: 46, space: 30, values: (_, values) => values.map(format) },
    ],
    series: [
      {},
      ...lines.map((line) => ({ label: line.label, stroke: token(line.color), width: 1.5, points: { show: (plot: uPlot) => plot.data[0].length < MIN_LINE_POINTS, size: 4 }, spanGaps: false })),
    ],
  };
}

/** The time range, also for a single value or none. */
function timeRange(x_s: ArrayLike<number>): [number, number] {
  const last_s = x_s[x_s.length - 1] ?? Date.now() / 1000;
  return [Math.min(x_s[0] ?? last_s, last_s - MIN_SPAN_S), last_s];
}

function label(at_s: number, step_s: number): string {
  return step_s < 60 ? new Date(at_s * 1000).toLocaleTimeString("en-GB") : clock(at_s);
}
