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
import { asked, width_s } from "./scale";
import { Stage } from "./stage";
import { text } from "./texts";
import styles from "./Timeline.module.css";

const SPANS = { hour: 3600, hours: 6 * 3600, day: 86_400, week: 7 * 86_400 } as const;
type Span = keyof typeof SPANS;
type Kind = "chart" | "table";
const ZOOM = 1.6;

export default function TimelinePage() {
  const say = useTexts(text);
  const [stage] = useState(() => new Stage(SPANS.hours));
  const [view, setView] = useState(stage.view);
  const [kind, setKind] = useState<Kind>("chart");
  const [chosen, setChosen] = useState<string | null>(null);
  const nodes = useRows();
  const told = useTimeline(asked(view));
  useEffect(() => {
    stage.told.onView = setView;
  }, [stage]);
  const rows = useMemo(() => rowsOf(nodes.data ?? []), [nodes.data]);
  const items = useMemo(() => (told.data ? itemsOf(told.data) : []), [told.data]);
  const blocks = useMemo(() => blocksOf(items, rows), [items, rows]);
  const error = nodes.error ?? told.error;
  if (error && !(nodes.data && told.data)) return <ErrorBox error={error} onRetry={() => void Promise.all([nodes.refetch(), told.refetch()])} />;
  if (!nodes.data || !told.data) return <Loading />;
  const span = (Object.keys(SPANS) as Span[]).find((one) => Math.abs(SPANS[one] - width_s(view)) < 1);
  const item = items.find((one) => one.key === chosen);
  return (
    <>
      <PageHead title={say("title")} note={<Notes told={told.data} />}>
        <Segments
          label={say("span")} value={span ?? ("" as Span)} onChange={(one) => stage.span(SPANS[one])}
          options={(Object.keys(SPANS) as Span[]).map((one) => [one, say(`span.${one}`)] as const)}
        />
        <div className={styles.buttons}>
          <Button aria-label={say("zoomOut")} title={say("zoomOut")} onClick={() => stage.zoom(1 / ZOOM)}>−</Button>
          <Button aria-label={say("zoomIn")} title={say("zoomIn")} onClick={() => stage.zoom(ZOOM)}>+</Button>
          <Button onClick={() => stage.span(width_s(stage.view))}>{say("now")}</Button>
        </div>
        <Segments label={say("show")} value={kind} onChange={setKind} options={[["chart", say("chart")], ["table", say("table")]]} />
      </PageHead>
      {rows.length === 0 ? <Empty text={say("noCards")} /> : (
        <div className={styles.body} data-open={item ? "" : undefined}>
          <div className={styles.main}>
            {kind === "chart"
              ? <Gantt stage={stage} rows={rows} blocks={blocks} told={told.data} chosen={chosen} onChoose={setChosen} />
              : <BarTable items={seenIn(items, view)} onChoose={setChosen} />}
            {kind === "chart" && <Legend />}
          </div>
          {item && <Detail item={item} onClose={() => setChosen(null)} />}
        </div>
      )}
    </>
  );
}

function seenIn(items: readonly Item[], view: { from_s: number; to_s: number }): Item[] {
  const isSeen = (one: Item) => one.start_s < view.to_s && (one.isOpen || Math.max(one.end_s, one.endHigh_s ?? 0) > view.from_s);
  return items.filter(isSeen).sort((a, b) => a.start_s - b.start_s);
}

/** What is missing from the picture, in words. */
function Notes({ told }: { told: NonNullable<ReturnType<typeof useTimeline>["data"]> }) {
  const say = useTexts(text);
  const notes = [
    told.truncated && say("truncated"),
    told.planned_at_s === null && told.to_s > told.now_s && say("noPlan"),
    told.planned_unknown > 0 && say("planUnknown", { n: told.planned_unknown }),
  ].filter(Boolean);
  return notes.length > 0 ? <span className={styles.notes}>{notes.join(" ")}</span> : null;
}
