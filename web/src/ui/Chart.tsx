import { lazy, Suspense } from "react";
import styles from "./Chart.module.css";
import type { PlotProps } from "./Plot";

const Plot = lazy(() => import("./Plot"));

interface Props extends PlotProps {
  title: string;
  /** What the chart says in words, for those who do not see it and as its caption. */
  summary: string;
}

/** Lines over time. The library that draws them comes with the first chart, not with the page. */
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
