import { useMemo } from "react";
import { useTexts } from "../../i18n";
import { count, percent, span } from "../../i18n/format";
import { Panel } from "../../ui/Panel";
import { XyChart } from "../../ui/XyChart";
import styles from "./Predictions.module.css";
import { type Calibration, calibrationLines, errorLines, scatter, type Series, sourcesOf } from "./sums";
import { text } from "./texts";
import { day, dayTicks, spanTicks } from "./ticks";

export function Charts({ series, calibration }: { series: Series; calibration: Calibration }) {
  const t = useTexts(text);
  const dots = useMemo(() => scatter(series), [series]);
  const errors = useMemo(() => errorLines(series), [series]);
  const lines = useMemo(() => calibrationLines(calibration, sourcesOf(series)), [calibration, series]);
  return (
    <div className={styles.charts}>
      <Panel title={t("scatter")}>
        <XyChart
          summary={t("scatterCaption", { n: count(series.points.length) })} kind="points" series={dots} isLog hasDiagonal
          x={{ label: t("forecast"), format: short, ticks: spanTicks }} y={{ label: t("actual"), format: short, ticks: spanTicks }}
        />
      </Panel>
      {lines.length > 0 && (
        <Panel title={t("calibration")}>
          <XyChart
            summary={t("calibrationCaption")} kind="lines" series={lines} range={[0, 1]} hasDiagonal
            x={{ label: t("level"), format: percent }} y={{ label: t("observed"), format: percent }}
          />
        </Panel>
      )}
      {errors.some((line) => line.x.length > 1) && (
        <Panel title={t("course")}>
          <XyChart
            summary={t("courseCaption")} kind="lines" series={errors} height_px={240}
            x={{ label: t("ended"), format: day, ticks: dayTicks }} y={{ label: t("distance"), format: percent }}
          />
        </Panel>
      )}
    </div>
  );
}

/** 0.1 -> "0.1s", 10000 -> "2h 46m". */
function short(seconds: number): string {
  return seconds < 1 ? `${Number(seconds.toPrecision(1))}s` : span(seconds);
}
