import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { api, need } from "../../api/client";
import { mayAct, useWho } from "../../app/rights";
import { useTexts } from "../../i18n";
import { Button } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { toast, toastError } from "../../ui/Toast";
import styles from "./Actions.module.css";
import { isOver, isWaiting, type Job } from "./queries";
import { type Key, text } from "./texts";

const PRIORITIES = ["low", "normal", "high", "urgent"] as const;

/** What the caller may do with this job in the state it is in. */
export function Actions({ job }: { job: Job }) {
  const say = useTexts(text);
  const [isAsking, setAsking] = useState(false);
  const [, go] = useLocation();
  const act = useAct(job);
  if (!mayAct(useWho(), job)) return null;
  const at = { params: { path: { job: job.id } } };
  const hold = () => act.mutate({ run: () => need(api.POST("/api/v1/jobs/{job}/hold", at)), said: say("held") });
  const release = () => act.mutate({ run: () => need(api.POST("/api/v1/jobs/{job}/release", at)), said: say("released") });
  const cancel = () => {
    setAsking(false);
    act.mutate({ run: () => need(api.POST("/api/v1/jobs/{job}/cancel", at)), said: say("cancelled") });
  };
  const again = async () => {
    const made = await need(api.POST("/api/v1/jobs/{job}/resubmit", at));
    go(`/jobs/${made.jobs[0]!.id}`);
  };
  return (
    <>
      {!isOver(job) && <Priority job={job} act={act} />}
      {job.state === "pending" && <Button disabled={act.isPending} onClick={hold}>{say("hold")}</Button>}
      {job.state === "held" && <Button disabled={act.isPending} onClick={release}>{say("release")}</Button>}
      <Button disabled={act.isPending} onClick={() => act.mutate({ run: again, said: say("resubmitted") })}>{say("resubmit")}</Button>
      {!isOver(job) && <Button kind="danger" disabled={act.isPending} onClick={() => setAsking(true)}>{say("cancel")}</Button>}
      {isAsking && (
        <Confirm
          title={say("cancelAsk", { name: job.name || job.id })} action={say("cancel")} keep={say("keep")} isDanger
          onYes={cancel} onNo={() => setAsking(false)}
        >
          <p>{say(isWaiting(job) ? "cancelWaits" : "cancelRuns")}</p>
        </Confirm>
      )}
    </>
  );
}

function Priority({ job, act }: { job: Job; act: ReturnType<typeof useAct> }) {
  const say = useTexts(text);
  const named = (one: string) => ((PRIORITIES as readonly string[]).includes(one) ? say(`priority.${one}` as Key) : one);
  const known: string[] = (PRIORITIES as readonly string[]).includes(job.priority) ? [...PRIORITIES] : [job.priority, ...PRIORITIES];
  const change = (priority: string) =>
    act.mutate({
      run: () => need(api.PATCH("/api/v1/jobs/{job}", { params: { path: { job: job.id } }, body: { priority } })),
      said: say("prioritised", { priority: named(priority) }),
    });
  return (
    <label className={styles.priority}>
      {say("priority")}
      <select value={job.priority} disabled={act.isPending} onChange={(event) => change(event.target.value)}>
        {known.map((one) => <option key={one} value={one}>{named(one)}</option>)}
      </select>
    </label>
  );
}

function useAct(job: Job) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ run }: { run: () => Promise<unknown>; said: string }) => run(),
    onSuccess: (_, { said }) => toast(said),
    onError: toastError,
    onSettled: () => queries.invalidateQueries({ queryKey: ["job", job.id] }),
  });
}
