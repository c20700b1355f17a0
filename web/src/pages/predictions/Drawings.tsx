import { useMemo } from "react";
import { useTexts } from "../../i18n";
import { count, percent, span } from "../../i18n/format";
import { Panel } from "../../ui/Panel";
import { XyChart } from "../../ui/XyChart";
import styles from "./Predictions.module.css";
import { type Calibration, calibrationLines, courses, scatter, type Series, sourcesOf } from "./sums";
import { text } from "./texts";
import { day, dayTicks, spanTicks } from "./ticks";

export function Drawings({ series, calibration }: { series: Series; calibration: Calibration }) {
  const say = useTexts(text);
  const dots = useMemo(() => scatter(series), [series]);
  const course = useMemo(() => courses(series), [series]);
  const lines = useMemo(() => calibrationLines(calibration, sourcesOf(series)), [calibration, series]);
  return (
    <div className={styles.charts}>
      <Panel title={say("scatter")}>
        <XyChart
          summary={say("scatterSay", { n: count(series.points.length) })} kind="points" series={dots} isLog hasDiagonal
          x={{ label: say("forecast"), format: short, ticks: spanTicks }} y={{ label: say("truth"), format: short, ticks: spanTicks }}
        />
      </Panel>
      {lines.length > 0 && (
        <Panel title={say("calibration")}>
          <XyChart
            summary={say("calibrationSay")} kind="lines" series={lines} range={[0, 1]} hasDiagonal
            x={{ label: say("level"), format: percent }} y={{ label: say("observed"), format: percent }}
          />
        </Panel>
      )}
      {course.some((one) => one.x.length > 1) && (
        <Panel title={say("course")}>
          <XyChart
            summary={say("courseSay")} kind="lines" series={course} height_px={240}
            x={{ label: say("ended"), format: day, ticks: dayTicks }} y={{ label: say("distance"), format: percent }}
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
