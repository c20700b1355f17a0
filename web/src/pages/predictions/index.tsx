import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, need } from "../../api/client";
import { useTexts } from "../../i18n";
import { Empty } from "../../ui/Empty";
import { ErrorBox } from "../../ui/ErrorBox";
import { Loading } from "../../ui/Loading";
import { PageHead } from "../../ui/PageHead";
import { Segments } from "../../ui/Segments";
import { Drawings } from "./Drawings";
import { Lines } from "./Lines";
import styles from "./Predictions.module.css";
import { text } from "./texts";
import { WholeView } from "./WholeView";

type Days = "1" | "7" | "30";
const DAYS = ["1", "7", "30"] as const;
const POINTS = 1500;

/** Rounded to minutes, so that the same question is asked once. */
function sinceOf(days: Days): number {
  return Math.floor(Date.now() / 60_000) * 60 - +days * 86_400;
}

export default function PredictionsPage() {
  const say = useTexts(text);
  const [days, setDays] = useState<Days>("30");
  const [tenant, setTenant] = useState("");
  const series = useQuery({
    queryKey: ["predictions", "series", days, tenant],
    queryFn: () => need(api.GET("/api/v1/predictions/series", {
      params: { query: { since_s: sinceOf(days), spans: 40, points: POINTS, ...(tenant ? { tenant } : {}) } },
    })),
    refetchInterval: 30_000, placeholderData: keepPreviousData,
  });
  const report = useQuery({
    queryKey: ["predictions", "report", days, tenant],
    queryFn: () => need(api.GET("/api/v1/predictions", { params: { query: { since_s: sinceOf(days), points: 0, ...(tenant ? { tenant } : {}) } } })),
    refetchInterval: 30_000, placeholderData: keepPreviousData,
  });
  const tenants = useTenantNames();
  return (
    <>
      <PageHead title={say("title")} note={say("lead")}>
        {tenants.length > 1 && (
          <select className={styles.tenant} aria-label={say("tenant")} value={tenant} onChange={(event) => setTenant(event.target.value)}>
            <option value="">{say("all")}</option>
            {tenants.map((one) => <option key={one}>{one}</option>)}
          </select>
        )}
        <Segments label={say("days")} value={days} onChange={setDays} options={DAYS.map((one) => [one, say(`days.${one}`)] as const)} />
      </PageHead>
      {series.error && <ErrorBox error={series.error} onRetry={() => void series.refetch()} />}
      {series.isPending && <Loading />}
      {series.data && (series.data.count === 0 ? <Empty text={say("none")} detail={say("noneDetail")} /> : (
        <div className={styles.page}>
          <WholeView series={series.data} />
          <Drawings series={series.data} calibration={report.data?.calibration ?? []} />
          <Lines lines={series.data.lines} isTruncated={series.data.truncated} />
        </div>
      ))}
    </>
  );
}

function useTenantNames(): string[] {
  const tenants = useQuery({ queryKey: ["tenants"], queryFn: () => need(api.GET("/api/v1/tenants")), staleTime: 60_000 });
  return tenants.data?.items.map((one) => one.name) ?? [];
}
