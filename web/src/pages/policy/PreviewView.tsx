import { Link } from "wouter";
import { useTexts } from "../../i18n";
import { clock, count, span } from "../../i18n/format";
import { Badge } from "../../ui/Badge";
import { DataTable } from "../../ui/DataTable";
import styles from "./Policy.module.css";
import { type Preview, useNames } from "./queries";
import { isSame, type Shift, shifts } from "./sums";
import { text } from "./texts";

const MAX_ROWS = 20;

/** Effect of other policies on the current queue. */
export function PreviewView({ preview }: { preview: Preview }) {
  const t = useTexts(text);
  const moved = shifts(preview);
  const sooner = moved.filter((shift) => (shift.by_s ?? 0) < 0).length;
  const later = moved.filter((shift) => (shift.by_s ?? 0) > 0).length;
  return (
    <>
      <h3>{t("previewTitle")}</h3>
      {isSame(preview) ? <p>{t("same")}</p> : (
        <dl className={styles.counts}>
          <Count name={t("starts")} value={preview.starts.length} />
          <Count name={t("sooner")} value={sooner} />
          <Count name={t("later")} value={later} />
          <Count name={t("preempted")} value={preview.preempted.length} />
        </dl>
      )}
      {moved.length > 0 && <Moves moved={moved} />}
    </>
  );
}

function Moves({ moved }: { moved: readonly Shift[] }) {
  const t = useTexts(text);
  const names = useNames();
  const at = (instant_s: number | null) => (instant_s === null ? t("noStart") : clock(instant_s));
  return (
    <>
      <DataTable
        label={t("previewTitle")} rows={moved.slice(0, MAX_ROWS)} rowKey={(row) => row.job}
        columns={[
          { name: t("job"), isHead: true, cell: (row) => <Link href={`/jobs/${row.job}`}>{names.get(row.job) || row.job}</Link> },
          { name: t("before"), cell: (row) => at(row.before_s) },
          { name: t("after"), cell: (row) => at(row.after_s) },
          { name: t("shift"), cell: (row) => <ShiftBadge by_s={row.by_s} /> },
        ]}
      />
      {moved.length > MAX_ROWS && <p className={styles.since}>{t("moreRows", { n: count(moved.length - MAX_ROWS) })}</p>}
    </>
  );
}

function ShiftBadge({ by_s }: { by_s: number | null }) {
  if (by_s === null) return <>–</>;
  return <Badge tone={by_s < 0 ? "good" : "warn"}>{by_s < 0 ? "−" : "+"}{span(Math.abs(by_s))}</Badge>;
}

function Count({ name, value }: { name: string; value: number }) {
  return <div data-zero={value === 0 || undefined}><dt>{name}</dt><dd>{count(value)}</dd></div>;
}
