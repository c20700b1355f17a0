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
const MOST_TOGETHER = 256; // the service follows so many tasks at once

/** What the tasks write, as they write it. */
export function Logs({ job }: { job: Job }) {
  const say = useTexts(text);
  const [task, setTask] = useState(job.tasks > MOST_TOGETHER ? "0" : "all");
  const [isWhole, setWhole] = useState(false);
  const [isFollowing, setFollowing] = useState(true);
  const { store, state, error } = useLog(job.id, task, isWhole ? null : FIRST_LINES);
  useSyncExternalStore(store.subscribe, store.version);
  const notes = [
    say("lines", { n: count(store.lines.length) }),
    store.dropped > 0 ? say("dropped", { n: count(store.dropped) }) : "",
    state === "connecting" && isWaiting(job) ? "" : say(`log.${state}`),
  ];
  const isCut = !isWhole && (store.lines.length >= FIRST_LINES || job.attempt > 0);
  return (
    <Panel
      title={say("logs")}
      note={notes.filter(Boolean).join(" · ")}
      tools={
        <>
          {job.tasks > 1 && <TaskChoice tasks={job.tasks} task={task} onChange={setTask} />}
          {isCut && <Button isSmall onClick={() => setWhole(true)}>{say("fromStart")}</Button>}
          <span className={styles.follow}>
            <Button isSmall aria-pressed={isFollowing} onClick={() => setFollowing(!isFollowing)}>{say("follow")}</Button>
          </span>
        </>
      }
    >
      {error && <ErrorBox error={error} />}
      <LogLines
        store={store} label={say("logOf", { name: job.name || job.id })} isFollowing={isFollowing} onFollow={setFollowing}
        hasTasks={job.tasks > 1 && task === "all"} empty={say(isOver(job) ? "logEmptyOver" : "logEmpty")}
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
  const say = useTexts(text);
  return (
    <select className={styles.tasks} aria-label={say("task")} value={task} onChange={(event) => onChange(event.target.value)}>
      {tasks <= MOST_TOGETHER && <option value="all">{say("allTasks")}</option>}
      {Array.from({ length: tasks }, (_, n) => <option key={n} value={String(n)}>{say("taskN", { n })}</option>)}
    </select>
  );
}
