import { useEffect, useState } from "react";
import { useTexts } from "../../i18n";
import { clock, count, percent, span } from "../../i18n/format";
import { Panel } from "../../ui/Panel";
import { useNow } from "../../ui/Time";
import styles from "./Progress.module.css";
import { progressShape, type Seen, type Shape, withLook } from "./progressShape";
import { type Job, useWhen } from "./queries";
import { type Key, text } from "./texts";

const WIDTH = 600;
const HEIGHT = 130;

/** How far it is, against how far it was predicted to be. */
export function Progress({ job }: { job: Job }) {
  const say = useTexts(text);
  const when = useWhen(job).data;
  const now_s = useNow();
  const seen = useSeen(job);
  const shape = progressShape({
    start_s: job.started_s!, now_s, ended_s: job.ended_s, forecast: job.forecast, end: when?.end ?? null, seen,
  });
  const ratio = job.state === "succeeded" ? 1 : (job.progress?.ratio ?? null);
  const hasPicture = ratio !== null || shape.mid !== null;
  return (
    <Panel title={say("progress")} note={stepWords(job, say)}>
      {ratio === null && <p className={styles.note}>{say("progressNone")}</p>}
      {hasPicture && <Picture job={job} shape={shape} label={say("progressPicture", { ratio: percent(ratio) })} />}
      {hasPicture && <Legend shape={shape} hasReal={ratio !== null} />}
      <p className={styles.note}>{[...runWords(job, say), endWords(when?.end?.source, say)].filter(Boolean).join(" ")}</p>
    </Panel>
  );
}

/** What was seen of its progress since the page was opened. */
function useSeen(job: Job): readonly Seen[] {
  const [seen, setSeen] = useState<readonly Seen[]>([]);
  const { at_s, ratio } = job.progress ?? {};
  useEffect(() => {
    if (at_s != null && ratio != null) setSeen((before) => withLook(before, { at_s, ratio }));
  }, [at_s, ratio]);
  return job.state === "succeeded" && job.ended_s != null ? withLook(seen, { at_s: job.ended_s, ratio: 1 }) : seen;
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
  const say = useTexts(text);
  return (
    <ul className={styles.legend}>
      {hasReal && <li data-of="real">{say("real")}</li>}
      {shape.mid !== null && <li data-of="predicted">{say("predicted")}</li>}
      {shape.endMid !== null && shape.real.length > 1 && <li data-of="heading">{say("heading")}</li>}
    </ul>
  );
}

type Say = ReturnType<typeof useTexts<Key>>;

function stepWords(job: Job, say: Say): string {
  const { step, total, ratio } = job.progress ?? {};
  const steps = step == null || total == null ? "" : say("progressOf", { step: count(step), total: count(total) });
  return [ratio == null ? "" : percent(ratio), steps].filter(Boolean).join(" · ");
}

function runWords(job: Job, say: Say): string[] {
  const { mid_s, high_s, source } = job.forecast ?? {};
  const words: string[] = [];
  if (mid_s != null) {
    const [mid, high] = [span(mid_s), span(high_s ?? mid_s)];
    words.push(say(mid === high ? "runPredictedOne" : "runPredicted", { mid, high, source: sourceWords(source!, say) }));
  }
  if (job.ended_s != null && job.started_s != null) words.push(say("runTook", { span: span(job.ended_s - job.started_s) }));
  if (job.run_record) words.push(say("runRecord", { n: count(job.run_record.count), within: percent(job.run_record.within_ratio) }));
  return words;
}

function endWords(source: string | undefined, say: Say): string {
  return source ? say("endSource", { source: sourceWords(source, say) }) : "";
}

function sourceWords(source: string, say: Say): string {
  const key = `source.${source}`;
  return key in text.en ? say(key as Key) : source;
}
