import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { api, need } from "../../api/client";
import { mayAct, useCurrentUser } from "../../app/permissions";
import { useTexts } from "../../i18n";
import { Button } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { toast, toastError } from "../../ui/Toast";
import styles from "./Actions.module.css";
import { isOver, isWaiting, type Job } from "./queries";
import { type Key, text } from "./texts";

const PRIORITIES = ["low", "normal", "high", "urgent"] as const;

/** Actions that the user may take on this job in its state. */
export function Actions({ job }: { job: Job }) {
  const t = useTexts(text);
  const [isConfirming, setConfirming] = useState(false);
  const [, go] = useLocation();
  const act = useAct(job);
  if (!mayAct(useCurrentUser(), job)) return null;
  const at = { params: { path: { job: job.id } } };
  const hold = () => act.mutate({ run: () => need(api.POST("/api/v1/jobs/{job}/hold", at)), message: t("held") });
  const release = () => act.mutate({ run: () => need(api.POST("/api/v1/jobs/{job}/release", at)), message: t("released") });
  const cancel = () => {
    setConfirming(false);
    act.mutate({ run: () => need(api.POST("/api/v1/jobs/{job}/cancel", at)), message: t("cancelled") });
  };
  const resubmit = async () => {
    const created = await need(api.POST("/api/v1/jobs/{job}/resubmit", at));
    go(`/jobs/${created.jobs[0]!.id}`);
  };
  return (
    <>
      {!isOver(job) && <Priority job={job} act={act} />}
      {job.state === "pending" && <Button disabled={act.isPending} onClick={hold}>{t("hold")}</Button>}
      {job.state === "held" && <Button disabled={act.isPending} onClick={release}>{t("release")}</Button>}
      <Button disabled={act.isPending} onClick={() => act.mutate({ run: resubmit, message: t("resubmitted") })}>{t("resubmit")}</Button>
      {!isOver(job) && <Button kind="danger" disabled={act.isPending} onClick={() => setConfirming(true)}>{t("cancel")}</Button>}
      {isConfirming && (
        <Confirm
          title={t("cancelTitle", { name: job.name || job.id })} action={t("cancel")} keep={t("keep")} isDanger
          onYes={cancel} onNo={() => setConfirming(false)}
        >
          <p>{t(isWaiting(job) ? "cancelWaits" : "cancelRuns")}</p>
        </Confirm>
      )}
    </>
  );
}

function Priority({ job, act }: { job: Job; act: ReturnType<typeof useAct> }) {
  const t = useTexts(text);
  const nameOf = (priority: string) => ((PRIORITIES as readonly string[]).includes(priority) ? t(`priority.${priority}` as Key) : priority);
  const options: string[] = (PRIORITIES as readonly string[]).includes(job.priority) ? [...PRIORITIES] : [job.priority, ...PRIORITIES];
  const change = (priority: string) =>
    act.mutate({
      run: () => need(api.PATCH("/api/v1/jobs/{job}", { params: { path: { job: job.id } }, body: { priority } })),
      message: t("prioritised", { priority: nameOf(priority) }),
    });
  return (
    <label className={styles.priority}>
      {t("priority")}
      <select value={job.priority} disabled={act.isPending} onChange={(event) => change(event.target.value)}>
        {options.map((priority) => <option key={priority} value={priority}>{nameOf(priority)}</option>)}
      </select>
    </label>
  );
}

function useAct(job: Job) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ run }: { run: () => Promise<unknown>; message: string }) => run(),
    onSuccess: (_, { message }) => toast(message),
    onError: toastError,
    onSettled: () => queries.invalidateQueries({ queryKey: ["job", job.id] }),
  });
}
