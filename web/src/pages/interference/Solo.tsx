import { useMemo } from "react";
import { useTexts } from "../../i18n";
import { gib, percent } from "../../i18n/format";
import { DataTable } from "../../ui/DataTable";
import { Panel } from "../../ui/Panel";
import { XyChart } from "../../ui/XyChart";
import type { CardTables } from "./shades";
import { text } from "./texts";

const COLOURS = ["--bar-util", "--share", "--warn", "--info", "--good", "--bad", "--text-2"];
const DRAWN = 7;

/** Speed of each workload alone, by fraction of the SMs. */
export function SoloCurves({ card }: { card: CardTables }) {
  const t = useTexts(text);
  const series = useMemo(() => curves(card), [card]);
  if (series.length === 0) return null;
  return (
    <Panel title={t("solo")}>
      <XyChart
        summary={t("soloCaption")} kind="lines" series={series} range={[0, 1]} hasDiagonal
        x={{ label: t("sm"), format: percent }} y={{ label: t("speed"), format: percent }}
      />
    </Panel>
  );
}

export function SoloTable({ card }: { card: CardTables }) {
  const t = useTexts(text);
  const measured = card.workloads.filter((row) => row.solo !== null);
  if (measured.length === 0) return null;
  return (
    <Panel title={t("soloTable")}>
      <DataTable
        label={t("soloTable")} rows={measured} rowKey={(row) => row.name}
        columns={[
          { name: t("own"), isHead: true, cell: (row) => row.name },
          { name: t("steps"), isNumber: true, cell: (row) => withRange(row.solo!.steps_per_s) },
          { name: t("utilisation"), isNumber: true, cell: (row) => percent(row.solo!.utilisation_ratio) },
          { name: t("bandwidth"), isNumber: true, cell: (row) => percent(row.solo!.bandwidth_ratio) },
          { name: t("memory"), isNumber: true, cell: (row) => gib(row.solo!.memory_bytes) },
          { name: t("power"), isNumber: true, cell: (row) => `${Math.round(row.solo!.power_w)} W` },
        ]}
      />
    </Panel>
  );
}

function curves(card: CardTables) {
  return card.workloads
    .filter((workload) => (workload.solo?.curve.length ?? 0) > 1)
    .slice(0, DRAWN)
    .map((workload, at) => {
      const points = [...workload.solo!.curve].sort((a, b) => a.sm_ratio - b.sm_ratio);
      return { label: workload.name, color: COLOURS[at]!, x: points.map((point) => point.sm_ratio), y: points.map((point) => point.speed_ratio) };
    });
}

function withRange({ mean, low, high }: { mean: number; low: number; high: number }): string {
  const digits = mean < 10 ? 2 : mean < 100 ? 1 : 0;
  return `${mean.toFixed(digits)} (${low.toFixed(digits)}–${high.toFixed(digits)})`;
}
