import { lazy, Suspense } from "react";
import styles from "./XyChart.module.css";
import type { XyProps } from "./XyPlot";

const XyPlot = lazy(() => import("./XyPlot"));

/** Values against values, and how to read them. The drawing library comes with the first one. */
export function XyChart({ summary, height_px = 300, ...plot }: XyProps & { summary: string }) {
  return (
    <figure className={styles.chart}>
      <figcaption className={styles.caption}>{summary}</figcaption>
      <div style={{ height: height_px }} aria-hidden="true">
        <Suspense fallback={null}><XyPlot {...plot} height_px={height_px} /></Suspense>
      </div>
      {plot.series.length > 1 && (
        <ul className={styles.key}>
          {plot.series.map((one) => <li key={one.label}><i style={{ background: `var(${one.color})` }} />{one.label}</li>)}
        </ul>
      )}
    </figure>
  );
}
