import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { api, need } from "../../api/client";
import { useTexts } from "../../i18n";
import { span } from "../../i18n/format";
import { DataTable } from "../../ui/DataTable";
import { Panel } from "../../ui/Panel";
import { StateBadge } from "../../ui/StateBadge";
import { Time } from "../../ui/Time";
import { text } from "./texts";

const SHOWN = 10;
const FINAL_STATES = ["succeeded", "failed", "cancelled", "timed_out"];

/** The jobs that ended last. Without it, a user whose short jobs are done would see an empty page. */
export function Ended() {
  const t = useTexts(text);
  const { data } = useQuery({
    queryKey: ["jobs", "ended"],
    queryFn: () => need(api.GET("/api/v1/jobs", { params: { query: { state: FINAL_STATES, sort: "-ended", limit: SHOWN } } })),
    refetchInterval: 30_000,
  });
  if (!data?.items.length) return null;
  return (
    <Panel title={t("ended")}>
      <DataTable
        label={t("ended")} rows={data.items} rowKey={(job) => job.id}
        columns={[
          { name: t("col.name"), isHead: true, cell: (job) => <Link href={`/jobs/${job.id}`}>{job.name || job.id}</Link> },
          { name: t("col.state"), cell: (job) => <StateBadge state={job.state} /> },
          { name: t("col.ended"), cell: (job) => job.ended_s !== null && <Time at_s={job.ended_s} /> },
          { name: t("col.ran"), isNumber: true, cell: (job) => job.ended_s !== null && job.started_s !== null && span(job.ended_s - job.started_s) },
          { name: t("col.gpus"), isNumber: true, cell: (job) => job.gpus },
          { name: t("col.user"), cell: (job) => job.user },
        ]}
      />
    </Panel>
  );
}
