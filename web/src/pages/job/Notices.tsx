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
import { type Job, useNotices } from "./queries";
import { type Key, text } from "./texts";

type Notice = Schemas["NoticeView"];
const TONES = { sent: "good", waiting: "info", dead: "bad" } as const;

/** Notices about this job. */
export function Notices({ job }: { job: Job }) {
  const t = useTexts(text);
  const { data } = useNotices(job.id);
  return (
    <Panel title={t("notices")}>
      {data?.length === 0 && <p className={styles.note}>{t("noNotices")}</p>}
      {data && data.length > 0 && <ul className={styles.list}>{data.map((notice) => <NoticeItem key={notice.id} notice={notice} job={job.id} />)}</ul>}
    </Panel>
  );
}

function NoticeItem({ notice, job }: { notice: Notice; job: string }) {
  const t = useTexts(text);
  const mayRetry = maySubmit(useCurrentUser()) && notice.state === "dead";
  const queries = useQueryClient();
  const retry = useMutation({
    mutationFn: () => need(api.POST("/api/v1/notices/{notice}/retry", { params: { path: { notice: notice.id } } })),
    onSuccess: () => toast(t("retried")),
    onError: toastError,
    onSettled: () => queries.invalidateQueries({ queryKey: ["job", job, "notices"] }),
  });
  const state = notice.state in TONES ? (notice.state as keyof typeof TONES) : null;
  return (
    <li>
      <p>
        <Badge tone={state ? TONES[state] : "plain"}>{state ? t(`notice.${state}` as Key) : notice.state}</Badge> {notice.title}
      </p>
      <p className={styles.note}>
        <Time at_s={notice.created_s} />
        {notice.tries > 1 && <> · {t("tries", { n: notice.tries })}</>}
        {notice.error && <> · {notice.error}</>}
      </p>
      {mayRetry && <Button isSmall disabled={retry.isPending} onClick={() => retry.mutate()}>{t("retry")}</Button>}
    </li>
  );
}
