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

/** How fast each workload is alone with a part of a card. */
export function SoloCurves({ card }: { card: CardTables }) {
  const say = useTexts(text);
  const series = useMemo(() => curves(card), [card]);
  if (series.length === 0) return null;
  return (
    <Panel title={say("solo")}>
      <XyChart
        summary={say("soloSay")} kind="lines" series={series} range={[0, 1]} hasDiagonal
        x={{ label: say("sm"), format: percent }} y={{ label: say("speed"), format: percent }}
      />
    </Panel>
  );
}

export function SoloTable({ card }: { card: CardTables }) {
  const say = useTexts(text);
  const known = card.workloads.filter((one) => one.solo !== null);
  if (known.length === 0) return null;
  return (
    <Panel title={say("soloTable")}>
      <DataTable
        label={say("soloTable")} rows={known} rowKey={(one) => one.name}
        columns={[
          { name: say("own"), isHead: true, cell: (one) => one.name },
          { name: say("steps"), isNumber: true, cell: (one) => within(one.solo!.steps_per_s) },
          { name: say("utilisation"), isNumber: true, cell: (one) => percent(one.solo!.utilisation_ratio) },
          { name: say("bandwidth"), isNumber: true, cell: (one) => percent(one.solo!.bandwidth_ratio) },
          { name: say("memory"), isNumber: true, cell: (one) => gib(one.solo!.memory_bytes) },
          { name: say("power"), isNumber: true, cell: (one) => `${Math.round(one.solo!.power_w)} W` },
        ]}
      />
    </Panel>
  );
}

function curves(card: CardTables) {
  return card.workloads
    .filter((one) => (one.solo?.curve.length ?? 0) > 1)
    .slice(0, DRAWN)
    .map((one, at) => {
      const points = [...one.solo!.curve].sort((a, b) => a.sm_ratio - b.sm_ratio);
      return { label: one.name, color: COLOURS[at]!, x: points.map((point) => point.sm_ratio), y: points.map((point) => point.speed_ratio) };
    });
}

function within({ mean, low, high }: { mean: number; low: number; high: number }): string {
  const digits = mean < 10 ? 2 : mean < 100 ? 1 : 0;
  return `${mean.toFixed(digits)} (${low.toFixed(digits)}–${high.toFixed(digits)})`;
}
