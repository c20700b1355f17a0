import { useQuery } from "@tanstack/react-query";
import { api, need } from "../../api/client";
import { useTexts } from "../../i18n";
import { count } from "../../i18n/format";
import styles from "./Efficiency.module.css";
import { text } from "./texts";

const PARTS = ["busy", "reserved_idle", "fragmented", "idle_waiting", "idle", "unhealthy", "taken_outside"] as const;
const EVERY_MS = 60_000;

/** GPU-hours of the last day by use. Idle time while jobs are pending is the scheduler's responsibility. */
export function Efficiency() {
  const t = useTexts(text);
  const { data } = useQuery({
    queryKey: ["efficiency"],
    queryFn: () => need(api.GET("/api/v1/efficiency", { params: { query: { hours: 24 } } })),
    refetchInterval: EVERY_MS,
    staleTime: EVERY_MS,
    retry: false,
  });
  if (!data) return null;
  const shown = PARTS.filter((part) => data.total[part] >= 0.005 || part === "busy" || part === "idle_waiting");
  const all = shown.reduce((sum, part) => sum + data.total[part], 0);
  return (
    <section className={styles.efficiency} aria-labelledby="efficiency">
      <h2 id="efficiency">{t("efficiency")}</h2>
      <div className={styles.stack} aria-hidden="true">
        {shown.map((part) => <span key={part} data-part={part} style={{ flexGrow: data.total[part] }} />)}
      </div>
      <dl className={styles.parts}>
        {shown.map((part) => (
          <div key={part} data-part={part}>
            <dt>{t(`hours.${part}`)}</dt>
            <dd>
              {hours(data.total[part])} <span>{all > 0 ? `${Math.round((data.total[part] / all) * 100)}%` : ""}</span>
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function hours(value: number): string {
  return value >= 100 ? count(Math.round(value)) : value.toFixed(value < 10 ? 2 : 1);
}
