import { lazy, Suspense } from "react";
import styles from "./Chart.module.css";
import type { PlotProps } from "./Plot";

const Plot = lazy(() => import("./Plot"));

interface Props extends PlotProps {
  title: string;
  /** The chart's content as text: its caption, also for screen readers. */
  summary: string;
}

/** Line chart over time. The chart library is loaded with the first chart. */
export function Chart({ title, summary, height_px = 140, ...plot }: Props) {
  return (
    <figure className={styles.chart}>
      <figcaption className={styles.caption}>
        <strong>{title}</strong> <span>{summary}</span>
      </figcaption>
      <div style={{ height: height_px }} aria-hidden="true">
        <Suspense fallback={null}><Plot {...plot} height_px={height_px} /></Suspense>
      </div>
    </figure>
  );
}
