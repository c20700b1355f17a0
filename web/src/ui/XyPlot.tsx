import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useIsDark } from "../app/theme";

const LABEL_PX = 80;

export interface XySeries {
  label: string;
  /** Name of a colour token, for example "--accent". */
  color: string;
  x: number[];
  y: number[];
}

export interface XyAxis {
  label: string;
  format: (value: number) => string;
  /** Positions of the ticks, at limit `limit`. Default: chosen by uPlot. */
  ticks?: (low: number, high: number, limit: number) => number[];
}

export interface XyProps {
  series: XySeries[];
  kind: "points" | "lines";
  x: XyAxis;
  y: XyAxis;
  /** Both axes are logarithmic. */
  isLog?: boolean;
  /** Range of both axes. Default: from the values. */
  range?: [number, number];
  /** Draw the line x = y. */
  hasDiagonal?: boolean;
  height_px?: number;
}

/** uPlot chart of y over x. Created again on every change, because these charts are small and rarely change. */
export default function XyPlot(props: XyProps) {
  const container = useRef<HTMLDivElement>(null);
  const isDark = useIsDark();
  const mark = JSON.stringify(props.series);
  useEffect(() => {
    const element = container.current!;
    const height = props.height_px ?? 300;
    const plot = new uPlot(options(element, props, height), [null, ...facets(props)] as never, element);
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [mark, isDark, props.kind, props.isLog, props.x.label, props.y.label]); // eslint-disable-line
  return <div ref={container} />;
}

function facets({ series, hasDiagonal, range, isLog }: XyProps): [number[], number[]][] {
  const data = series.map((line): [number[], number[]] => [line.x, line.y]);
  if (!hasDiagonal) return data;
  const ends = range ?? bounds(series.flatMap((line) => [...line.x, ...line.y]), isLog);
  return [...data, [ends, ends]];
}

function options(at: HTMLElement, props: XyProps, height: number): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const token = (name: string) => style.getPropertyValue(name).trim();
  const [x, y] = ranges(props);
  const scale = (range: [number, number]) => ({ time: false, distr: props.isLog ? 3 : 1, range: () => range }) as uPlot.Scale;
  const axis = (of: XyAxis, [low, high]: [number, number], size: number): uPlot.Axis => ({
    label: of.label, labelSize: 18, labelFont: `12px ${token("--font")}`, font: `11px ${token("--font")}`, stroke: token("--text-2"),
    grid: { stroke: token("--line"), width: 1 }, ticks: { show: false }, size, space: 50,
    ...(of.ticks ? { splits: (plot: uPlot) => of.ticks!(low, high, plot.width / LABEL_PX), filter: (_: uPlot, splits: number[]) => splits } : {}),
    values: (_, values) => values.map((value) => (value == null ? "" : of.format(value))),
  });
  const lines = [...props.series, ...(props.hasDiagonal ? [{ label: "=", color: "--text-3" }] : [])];
  return {
    mode: 2, width: at.clientWidth, height, legend: { show: false }, cursor: { show: false }, padding: [8, 20, 0, 0],
    scales: { x: scale(x), y: scale(y) },
    axes: [axis(props.x, x, 30), axis(props.y, y, 56)],
    series: [
      {},
      ...lines.map((line, index) => {
        const isLine = props.kind === "lines" || index >= props.series.length;
        return {
          facets: [{ scale: "x", auto: true }, { scale: "y", auto: true }],
          paths: (plot: uPlot, at: number) => draw(plot, at, isLine, token(line.color), index >= props.series.length),
        } as unknown as uPlot.Series;
      }),
    ],
  };
}

/** Ranges of the axes; equal if the diagonal is drawn. */
function ranges({ series, range, hasDiagonal, isLog }: XyProps): [[number, number], [number, number]] {
  const xs = series.flatMap((line) => line.x);
  const ys = series.flatMap((line) => line.y);
  if (!hasDiagonal) return [range ?? [Math.min(...xs), Math.max(...xs)], range ?? bounds(ys, isLog)];
  const both = range ?? bounds([...xs, ...ys], isLog);
  return [both, both];
}

/** Draws on the canvas, because uPlot has no points for this chart mode. */
function draw(plot: uPlot, at: number, isLine: boolean, color: string, isDiagonal: boolean): null {
  const [xs, ys] = plot.data[at] as unknown as [number[], number[]];
  const context = plot.ctx;
  const { left, top, width, height } = plot.bbox;
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.strokeStyle = context.fillStyle = color;
  context.lineWidth = (isDiagonal ? 1 : 2) * devicePixelRatio;
  if (isDiagonal) context.setLineDash([6, 5]);
  context.globalAlpha = isLine ? 1 : 0.6;
  context.beginPath();
  xs.forEach((value, index) => {
    const x = plot.valToPos(value, "x", true);
    const y = plot.valToPos(ys[index]!, "y", true);
    if (isLine) return index === 0 ? context.moveTo(x, y) : context.lineTo(x, y);
    context.moveTo(x, y);
    context.arc(x, y, 3 * devicePixelRatio, 0, 2 * Math.PI);
  });
  if (isLine) context.stroke();
  else context.fill();
  context.restore();
  return null;
}

/** Range of the values with a margin; powers of ten on a logarithmic axis. */
export function bounds(values: readonly number[], isLog = false): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (isLog && value <= 0) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) return isLog ? [1, 10] : [0, 1];
  if (isLog) return [10 ** Math.floor(Math.log10(low)), 10 ** Math.max(Math.floor(Math.log10(low)) + 1, Math.ceil(Math.log10(high)))];
  return [Math.min(0, low), high * 1.05];
}
