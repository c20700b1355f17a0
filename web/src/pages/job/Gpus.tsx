import { useQueries } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, need } from "../../api/client";
import { useTexts } from "../../i18n";
import { percent } from "../../i18n/format";
import { Chart } from "../../ui/Chart";
import { Panel } from "../../ui/Panel";
import styles from "./Gpus.module.css";
import { isOver, type Job } from "./queries";
import { aligned, every, extent, type Sample } from "./samples";
import { text } from "./texts";

const MAX_CARDS = 8;
const REFETCH_MS = 5_000;
const ROUND_S = 60; // the sample interval of a running job changes at most once a minute
const EMPTY: Sample[] = [];
const GIB = 2 ** 30;
const gibs = (value: number) => (value >= 10 || value === 0 ? String(Math.round(value)) : value.toFixed(value < 0.1 ? 3 : 1));
const watts = (value: number) => String(Math.round(value));

/** Utilisation, memory and power of the job's cards during its run. */
export function Gpus({ job, cards }: { job: Job; cards: string[] }) {
  const t = useTexts(text);
  const drawn = cards.slice(0, MAX_CARDS);
  const { readings, every_s } = useReadings(job, drawn);
  const key = readings.map((samples) => `${samples.length}/${samples.at(-1)?.at_s}`).join();
  const [util, memory, power] = useMemo(
    () => [
      aligned(drawn, readings, "utilisation_ratio", every_s), aligned(drawn, readings, "memory_used_bytes", every_s, GIB),
      aligned(drawn, readings, "power_w", every_s),
    ] as const,
    [key, drawn.join()], // eslint-disable-line -- these change with the samples
  );
  const summarize = (chart: typeof util, format: (value: number) => string) => {
    const found = extent(chart.lines);
    return found ? t("meanMost", { mean: format(found.mean), most: format(found.most) }) : t("noReadings");
  };
  return (
    <Panel
      title={t(isOver(job) ? "gpusPast" : "gpus")}
      note={cards.length > MAX_CARDS ? t("moreCards", { n: MAX_CARDS, all: cards.length }) : t("othersToo")}
    >
      {cards.length === 0 && <p>{t("noCards")}</p>}
      {cards.length > 0 && (
        <>
          <div className={styles.charts}>
            <Chart title={t("utilisation")} summary={summarize(util, percent)} {...util} range={[0, 1]} format={percent} />
            <Chart title={t("memory")} summary={summarize(memory, gibs)} {...memory} format={gibs} />
            <Chart title={t("power")} summary={summarize(power, watts)} {...power} format={watts} />
          </div>
          <ul className={styles.legend}>
            {util.lines.map((line) => <li key={line.label}><i style={{ background: `var(${line.color})` }} />{line.label}</li>)}
          </ul>
        </>
      )}
    </Panel>
  );
}

function useReadings(job: Job, cards: string[]) {
  const since_s = job.started_s ?? 0;
  const span_s = (job.ended_s ?? Date.now() / 1000) - since_s;
  const every_s = every(Math.ceil(span_s / ROUND_S) * ROUND_S);
  const query = { since_s, every_s, ...(job.ended_s == null ? {} : { until_s: job.ended_s }) };
  const results = useQueries({
    queries: cards.map((card) => ({
      queryKey: ["samples", card, since_s, every_s, job.ended_s],
      queryFn: () => need(api.GET("/api/v1/cards/{card}/samples", { params: { path: { card }, query } })),
      refetchInterval: isOver(job) ? (false as const) : REFETCH_MS,
    })),
  });
  return { readings: results.map((result) => result.data?.items ?? EMPTY), every_s };
}
