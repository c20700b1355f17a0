import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, need } from "../../api/client";
import { useTexts } from "../../i18n";
import { Empty } from "../../ui/Empty";
import { ErrorBox } from "../../ui/ErrorBox";
import { Loading } from "../../ui/Loading";
import { PageHead } from "../../ui/PageHead";
import { Segments } from "../../ui/Segments";
import { Charts } from "./Charts";
import { ErrorTable } from "./ErrorTable";
import styles from "./Predictions.module.css";
import { text } from "./texts";
import { Promises } from "./Promises";
import { Summary } from "./Summary";
import { Waits } from "./Waits";

type Days = "1" | "7" | "30";
const DAYS = ["1", "7", "30"] as const;
const POINTS = 1500;

/** Rounded to minutes, so that equal queries share one cache entry. */
function sinceOf(days: Days): number {
  return Math.floor(Date.now() / 60_000) * 60 - +days * 86_400;
}

export default function PredictionsPage() {
  const t = useTexts(text);
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
      <PageHead title={t("title")} note={t("lead")}>
        {tenants.length > 1 && (
          <select className={styles.tenant} aria-label={t("tenant")} value={tenant} onChange={(event) => setTenant(event.target.value)}>
            <option value="">{t("all")}</option>
            {tenants.map((name) => <option key={name}>{name}</option>)}
          </select>
        )}
        <Segments label={t("days")} value={days} onChange={setDays} options={DAYS.map((option) => [option, t(`days.${option}`)] as const)} />
      </PageHead>
      {series.error && <ErrorBox error={series.error} onRetry={() => void series.refetch()} />}
      {series.isPending && <Loading />}
      {series.data && (series.data.count === 0 ? <Empty text={t("none")} detail={t("noneDetail")} /> : (
        <div className={styles.page}>
          <Summary series={series.data} />
          <Charts series={series.data} calibration={report.data?.calibration ?? []} />
          <ErrorTable lines={series.data.lines} isTruncated={series.data.truncated} />
        </div>
      ))}
      {report.data && <div className={styles.promises}><Waits waits={report.data.waits} /><Promises starts={report.data.starts} /></div>}
    </>
  );
}

function useTenantNames(): string[] {
  const tenants = useQuery({ queryKey: ["tenants"], queryFn: () => need(api.GET("/api/v1/tenants")), staleTime: 60_000 });
  return tenants.data?.items.map((tenant) => tenant.name) ?? [];
}
