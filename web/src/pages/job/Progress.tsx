import { useEffect, useState } from "react";
import { useTexts } from "../../i18n";
import { clock, count, percent, span } from "../../i18n/format";
import { Panel } from "../../ui/Panel";
import { useNow } from "../../ui/Time";
import styles from "./Progress.module.css";
import { progressShape, type ProgressSample, type Shape, withSample } from "./progressShape";
import { type Job, useWhen } from "./queries";
import { type Key, text } from "./texts";

const WIDTH = 600;
const HEIGHT = 130;

/** Actual progress, compared with the prediction. */
export function Progress({ job }: { job: Job }) {
  const t = useTexts(text);
  const when = useWhen(job).data;
  const now_s = useNow();
  const observed = useObserved(job);
  const shape = progressShape({
    start_s: job.started_s!, now_s, ended_s: job.ended_s, forecast: job.forecast, end: when?.end ?? null, observed,
  });
  const ratio = job.state === "succeeded" ? 1 : (job.progress?.ratio ?? null);
  const hasPicture = ratio !== null || shape.mid !== null;
  return (
    <Panel title={t("progress")} note={stepText(job, t)}>
      {ratio === null && <p className={styles.note}>{t("progressNone")}</p>}
      {hasPicture && <Picture job={job} shape={shape} label={t("progressPicture", { ratio: percent(ratio) })} />}
      {hasPicture && <Legend shape={shape} hasReal={ratio !== null} />}
      <p className={styles.note}>{[...runTexts(job, t), endText(when?.end?.source, t)].filter(Boolean).join(" ")}</p>
    </Panel>
  );
}

/** Progress samples since the page was opened. */
function useObserved(job: Job): readonly ProgressSample[] {
  const [observed, setObserved] = useState<readonly ProgressSample[]>([]);
  const { at_s, ratio } = job.progress ?? {};
  useEffect(() => {
    if (at_s != null && ratio != null) setObserved((before) => withSample(before, { at_s, ratio }));
  }, [at_s, ratio]);
  return job.state === "succeeded" && job.ended_s != null ? withSample(observed, { at_s: job.ended_s, ratio: 1 }) : observed;
}

function Picture({ job, shape, label }: { job: Job; shape: Shape; label: string }) {
  const x = (part: number) => part * WIDTH;
  const y = (ratio: number) => HEIGHT - ratio * HEIGHT;
  const end = shape.real.at(-1)!;
  const points = shape.real.map(([a, b]) => `${x(a)},${y(b)}`).join(" ");
  const to = (at: number) => `M${x(end[0])},${y(end[1])}L${x(at)},0`;
  return (
    <figure className={styles.figure}>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label} className={styles.picture}>
        {[0.25, 0.5, 0.75].map((part) => <path key={part} d={`M0,${y(part)}H${WIDTH}`} className={styles.grid} />)}
        {shape.mid !== null && (
          <>
            <path d={`M0,${HEIGHT}L${x(shape.mid)},0H${x(shape.high ?? shape.mid)}Z`} className={styles.wedge} />
            <path d={`M0,${HEIGHT}L${x(shape.mid)},0`} className={styles.mid} />
          </>
        )}
        {shape.endMid !== null && shape.real.length > 1 && <path d={to(shape.endMid)} className={styles.heading} />}
        {shape.endHigh !== null && shape.real.length > 1 && <path d={to(shape.endHigh)} className={styles.headingHigh} />}
        <path d={`M${x(shape.now)},0V${HEIGHT}`} className={styles.now} />
        <polyline points={points} className={styles.real} />
      </svg>
      <div className={styles.axis} aria-hidden="true">
        <span>{clock(job.started_s!)}</span>
        <span>{clock(shape.until_s)}</span>
      </div>
    </figure>
  );
}

function Legend({ shape, hasReal }: { shape: Shape; hasReal: boolean }) {
  const t = useTexts(text);
  return (
    <ul className={styles.legend}>
      {hasReal && <li data-of="real">{t("real")}</li>}
      {shape.mid !== null && <li data-of="predicted">{t("predicted")}</li>}
      {shape.endMid !== null && shape.real.length > 1 && <li data-of="heading">{t("heading")}</li>}
    </ul>
  );
}

type Translate = ReturnType<typeof useTexts<Key>>;

function stepText(job: Job, t: Translate): string {
  const { step, total, ratio } = job.progress ?? {};
  const steps = step == null || total == null ? "" : t("progressOf", { step: count(step), total: count(total) });
  return [ratio == null ? "" : percent(ratio), steps].filter(Boolean).join(" · ");
}

function runTexts(job: Job, t: Translate): string[] {
  const { mid_s, high_s, source } = job.forecast ?? {};
  const texts: string[] = [];
  if (mid_s != null) {
    const [mid, high] = [span(mid_s), span(high_s ?? mid_s)];
    texts.push(t(mid === high ? "runPredictedOne" : "runPredicted", { mid, high, source: sourceText(source!, t) }));
  }
  if (job.ended_s != null && job.started_s != null) texts.push(t("runTook", { span: span(job.ended_s - job.started_s) }));
  if (job.run_record) texts.push(t("runRecord", { n: count(job.run_record.count), within: percent(job.run_record.within_ratio) }));
  return texts;
}

function endText(source: string | undefined, t: Translate): string {
  return source ? t("endSource", { source: sourceText(source, t) }) : "";
}

function sourceText(source: string, t: Translate): string {
  const key = `source.${source}`;
  return key in text.en ? t(key as Key) : source;
}
