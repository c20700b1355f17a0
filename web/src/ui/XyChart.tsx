import { lazy, Suspense } from "react";
import styles from "./XyChart.module.css";
import type { XyProps } from "./XyPlot";

const XyPlot = lazy(() => import("./XyPlot"));

/** Chart of y over x with a caption and a legend. The chart library is loaded with the first chart. */
export function XyChart({ summary, height_px = 300, ...plot }: XyProps & { summary: string }) {
  return (
    <figure className={styles.chart}>
      <figcaption className={styles.caption}>{summary}</figcaption>
      <div style={{ height: height_px }} aria-hidden="true">
        <Suspense fallback={null}><XyPlot {...plot} height_px={height_px} /></Suspense>
      </div>
      {plot.series.length > 1 && (
        <ul className={styles.key}>
          {plot.series.map((line) => <li key={line.label}><i style={{ background: `var(${line.color})` }} />{line.label}</li>)}
        </ul>
      )}
    </figure>
  );
}
