import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, need, type Schemas } from "../../api/client";
import { maySubmit, useCurrentUser } from "../../app/permissions";
import { useTexts } from "../../i18n";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Panel } from "../../ui/Panel";
import { Time } from "../../ui/Time";
import { toast, toastError } from "../../ui/Toast";
import styles from "./Notices.module.css";
import { type Job, useDeliveries, useInboxEntries } from "./queries";
import { type Key, text } from "./texts";

type Delivery = Schemas["NoticeView"];
type InboxEntry = Schemas["InboxEntry"];
const TONES = { sent: "good", waiting: "info", dead: "bad" } as const;

/** Notices about this job: those of the inbox, and their deliveries to channels. */
export function Notices({ job }: { job: Job }) {
  const t = useTexts(text);
  const { data: entries } = useInboxEntries(job.id);
  const { data: deliveries } = useDeliveries(job.id);
  const hasDeliveries = deliveries !== undefined && deliveries.length > 0;
  return (
    <Panel title={t("notices")}>
      {entries?.length === 0 && deliveries?.length === 0 && <p className={styles.note}>{t("noNotices")}</p>}
      {entries && entries.length > 0 && <ul className={styles.list}>{entries.map((entry) => <InboxItem key={entry.id} entry={entry} />)}</ul>}
      {hasDeliveries && <h3 className={styles.heading}>{t("deliveries")}</h3>}
      {hasDeliveries && <ul className={styles.list}>{deliveries.map((one) => <DeliveryItem key={one.id} delivery={one} job={job.id} />)}</ul>}
    </Panel>
  );
}

function InboxItem({ entry }: { entry: InboxEntry }) {
  return (
    <li>
      <p>{entry.title}</p>
      <p className={styles.note}>
        <Time at_s={entry.at_s} />
        {entry.reason?.text && <> · {entry.reason.text}</>}
      </p>
    </li>
  );
}

function DeliveryItem({ delivery, job }: { delivery: Delivery; job: string }) {
  const t = useTexts(text);
  const mayRetry = maySubmit(useCurrentUser()) && delivery.state === "dead";
  const queries = useQueryClient();
  const retry = useMutation({
    mutationFn: () => need(api.POST("/api/v1/notices/{notice}/retry", { params: { path: { notice: delivery.id } } })),
    onSuccess: () => toast(t("retried")),
    onError: toastError,
    onSettled: () => queries.invalidateQueries({ queryKey: ["job", job, "notices"] }),
  });
  const state = delivery.state in TONES ? (delivery.state as keyof typeof TONES) : null;
  return (
    <li>
      <p>
        <Badge tone={state ? TONES[state] : "plain"}>{state ? t(`notice.${state}` as Key) : delivery.state}</Badge> {delivery.title}
      </p>
      <p className={styles.note}>
        <Time at_s={delivery.created_s} />
        {delivery.tries > 1 && <> · {t("tries", { n: delivery.tries })}</>}
        {delivery.error && <> · {delivery.error}</>}
      </p>
      {mayRetry && <Button isSmall disabled={retry.isPending} onClick={() => retry.mutate()}>{t("retry")}</Button>}
    </li>
  );
}
