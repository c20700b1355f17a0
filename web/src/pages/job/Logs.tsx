import { useEffect, useState, useSyncExternalStore } from "react";
import type { ApiError } from "../../api/errors";
import { useTexts } from "../../i18n";
import { count } from "../../i18n/format";
import { Button } from "../../ui/Button";
import { ErrorBox } from "../../ui/ErrorBox";
import { Panel } from "../../ui/Panel";
import { LogLines } from "./LogLines";
import styles from "./Logs.module.css";
import { LogStore } from "./logStore";
import { followLog, type LogState } from "./logStream";
import { isOver, isWaiting, type Job } from "./queries";
import { text } from "./texts";

const FIRST_LINES = 20_000;
const MAX_FOLLOWED_TASKS = 256; // limit of the service

/** Live output of the tasks. */
export function Logs({ job }: { job: Job }) {
  const t = useTexts(text);
  const [task, setTask] = useState(job.tasks > MAX_FOLLOWED_TASKS ? "0" : "all");
  const [isFromStart, setFromStart] = useState(false);
  const [isFollowing, setFollowing] = useState(true);
  const { store, state, error } = useLog(job.id, task, isFromStart ? null : FIRST_LINES);
  useSyncExternalStore(store.subscribe, store.version);
  const notes = [
    t("lines", { n: count(store.lines.length) }),
    store.dropped > 0 ? t("dropped", { n: count(store.dropped) }) : "",
    state === "connecting" && isWaiting(job) ? "" : t(`log.${state}`),
  ];
  const isCut = !isFromStart && (store.lines.length >= FIRST_LINES || job.attempt > 0);
  return (
    <Panel
      title={t("logs")}
      note={notes.filter(Boolean).join(" · ")}
      tools={
        <>
          {job.tasks > 1 && <TaskChoice tasks={job.tasks} task={task} onChange={setTask} />}
          {isCut && <Button isSmall onClick={() => setFromStart(true)}>{t("fromStart")}</Button>}
          <span className={styles.follow}>
            <Button isSmall aria-pressed={isFollowing} onClick={() => setFollowing(!isFollowing)}>{t("follow")}</Button>
          </span>
        </>
      }
    >
      {error && <ErrorBox error={error} />}
      <LogLines
        store={store} label={t("logOf", { name: job.name || job.id })} isFollowing={isFollowing} onFollow={setFollowing}
        hasTasks={job.tasks > 1 && task === "all"} empty={t(isOver(job) ? "logEmptyOver" : "logEmpty")}
      />
    </Panel>
  );
}

function useLog(job: string, task: string, tail: number | null) {
  const [store] = useState(() => new LogStore());
  const [state, setState] = useState<LogState>("connecting");
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    store.clear();
    setError(null);
    return followLog(job, task, tail, {
      onPart: (part) => store.add(part.task, part.attempt, part.text), onState: setState, onError: setError,
    });
  }, [store, job, task, tail]);
  return { store, state, error };
}

function TaskChoice({ tasks, task, onChange }: { tasks: number; task: string; onChange: (task: string) => void }) {
  const t = useTexts(text);
  return (
    <select className={styles.tasks} aria-label={t("task")} value={task} onChange={(event) => onChange(event.target.value)}>
      {tasks <= MAX_FOLLOWED_TASKS && <option value="all">{t("allTasks")}</option>}
      {Array.from({ length: tasks }, (_, n) => <option key={n} value={String(n)}>{t("taskN", { n })}</option>)}
    </select>
  );
}
