import { Link } from "wouter";
import { useTexts } from "../../i18n";
import { clock, count, span } from "../../i18n/format";
import { Badge } from "../../ui/Badge";
import { DataTable } from "../../ui/DataTable";
import styles from "./Policy.module.css";
import { type Preview, useNames } from "./queries";
import { isSame, type Shift, shifts } from "./sums";
import { text } from "./texts";

const SHOWN = 20;

/** What other policies would do to the queue as it is. */
export function PreviewView({ preview }: { preview: Preview }) {
  const say = useTexts(text);
  const moved = shifts(preview);
  const sooner = moved.filter((one) => (one.by_s ?? 0) < 0).length;
  const later = moved.filter((one) => (one.by_s ?? 0) > 0).length;
  return (
    <>
      <h3>{say("previewTitle")}</h3>
      {isSame(preview) ? <p>{say("same")}</p> : (
        <dl className={styles.counts}>
          <Count name={say("starts")} value={preview.starts.length} />
          <Count name={say("sooner")} value={sooner} />
          <Count name={say("later")} value={later} />
          <Count name={say("preempted")} value={preview.preempted.length} />
        </dl>
      )}
      {moved.length > 0 && <Moves moved={moved} />}
    </>
  );
}

function Moves({ moved }: { moved: readonly Shift[] }) {
  const say = useTexts(text);
  const names = useNames();
  const at = (instant_s: number | null) => (instant_s === null ? say("noStart") : clock(instant_s));
  return (
    <>
      <DataTable
        label={say("previewTitle")} rows={moved.slice(0, SHOWN)} rowKey={(row) => row.job}
        columns={[
          { name: say("job"), isHead: true, cell: (row) => <Link href={`/jobs/${row.job}`}>{names.get(row.job) || row.job}</Link> },
          { name: say("before"), cell: (row) => at(row.before_s) },
          { name: say("after"), cell: (row) => at(row.after_s) },
          { name: say("shift"), cell: (row) => <By by_s={row.by_s} /> },
        ]}
      />
      {moved.length > SHOWN && <p className={styles.since}>{say("moreRows", { n: count(moved.length - SHOWN) })}</p>}
    </>
  );
}

function By({ by_s }: { by_s: number | null }) {
  if (by_s === null) return <>–</>;
  return <Badge tone={by_s < 0 ? "good" : "warn"}>{by_s < 0 ? "−" : "+"}{span(Math.abs(by_s))}</Badge>;
}

function Count({ name, value }: { name: string; value: number }) {
  return <div data-zero={value === 0 || undefined}><dt>{name}</dt><dd>{count(value)}</dd></div>;
}
