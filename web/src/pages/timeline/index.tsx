import { useEffect, useMemo, useState } from "react";
import { useTexts } from "../../i18n";
import { Button } from "../../ui/Button";
import { Empty } from "../../ui/Empty";
import { ErrorBox } from "../../ui/ErrorBox";
import { Loading } from "../../ui/Loading";
import { PageHead } from "../../ui/PageHead";
import { Segments } from "../../ui/Segments";
import { BarTable } from "./BarTable";
import { Detail } from "./Detail";
import { Gantt } from "./Gantt";
import { type Item, itemsOf } from "./items";
import { blocksOf, rowsOf } from "./layout";
import { Legend } from "./Legend";
import { useRows, useTimeline } from "./queries";
import { fetchRange, width_s } from "./scale";
import { Stage } from "./stage";
import { text } from "./texts";
import styles from "./Timeline.module.css";

const SPANS = { hour: 3600, hours: 6 * 3600, day: 86_400, week: 7 * 86_400 } as const;
type Span = keyof typeof SPANS;
type Kind = "chart" | "table";
const ZOOM = 1.6;

export default function TimelinePage() {
  const t = useTexts(text);
  const [stage] = useState(() => new Stage(SPANS.hours));
  const [view, setView] = useState(stage.view);
  const [kind, setKind] = useState<Kind>("chart");
  const [chosen, setChosen] = useState<string | null>(null);
  const nodes = useRows();
  const timeline = useTimeline(fetchRange(view));
  useEffect(() => {
    stage.handlers.onView = setView;
  }, [stage]);
  const rows = useMemo(() => rowsOf(nodes.data ?? []), [nodes.data]);
  const items = useMemo(() => (timeline.data ? itemsOf(timeline.data) : []), [timeline.data]);
  const blocks = useMemo(() => blocksOf(items, rows), [items, rows]);
  const error = nodes.error ?? timeline.error;
  if (error && !(nodes.data && timeline.data)) return <ErrorBox error={error} onRetry={() => void Promise.all([nodes.refetch(), timeline.refetch()])} />;
  if (!nodes.data || !timeline.data) return <Loading />;
  const span = (Object.keys(SPANS) as Span[]).find((name) => Math.abs(SPANS[name] - width_s(view)) < 1);
  const item = items.find((entry) => entry.key === chosen);
  return (
    <>
      <PageHead title={t("title")} note={<Notes timeline={timeline.data} />}>
        <Segments
          label={t("span")} value={span ?? ("" as Span)} onChange={(name) => stage.span(SPANS[name])}
          options={(Object.keys(SPANS) as Span[]).map((name) => [name, t(`span.${name}`)] as const)}
        />
        <div className={styles.buttons}>
          <Button aria-label={t("zoomOut")} title={t("zoomOut")} onClick={() => stage.zoom(1 / ZOOM)}>−</Button>
          <Button aria-label={t("zoomIn")} title={t("zoomIn")} onClick={() => stage.zoom(ZOOM)}>+</Button>
          <Button onClick={() => stage.span(width_s(stage.view))}>{t("now")}</Button>
        </div>
        <Segments label={t("show")} value={kind} onChange={setKind} options={[["chart", t("chart")], ["table", t("table")]]} />
      </PageHead>
      {rows.length === 0 ? <Empty text={t("noCards")} /> : (
        <div className={styles.body} data-open={item ? "" : undefined}>
          <div className={styles.main}>
            {kind === "chart"
              ? <Gantt stage={stage} rows={rows} blocks={blocks} timeline={timeline.data} chosen={chosen} onChoose={setChosen} />
              : <BarTable items={visibleItems(items, view)} onChoose={setChosen} />}
            {kind === "chart" && <Legend />}
          </div>
          {item && <Detail item={item} onClose={() => setChosen(null)} />}
        </div>
      )}
    </>
  );
}

function visibleItems(items: readonly Item[], view: { from_s: number; to_s: number }): Item[] {
  const isVisible = (item: Item) => item.start_s < view.to_s && (item.isOpen || Math.max(item.end_s, item.endHigh_s ?? 0) > view.from_s);
  return items.filter(isVisible).sort((a, b) => a.start_s - b.start_s);
}

/** Notes about what the chart does not show. */
function Notes({ timeline }: { timeline: NonNullable<ReturnType<typeof useTimeline>["data"]> }) {
  const t = useTexts(text);
  const notes = [
    timeline.truncated && t("truncated"),
    timeline.planned_at_s === null && timeline.to_s > timeline.now_s && t("noPlan"),
    timeline.planned_unknown > 0 && t("planUnknown", { n: timeline.planned_unknown }),
  ].filter(Boolean);
  return notes.length > 0 ? <span className={styles.notes}>{notes.join(" ")}</span> : null;
}
