import { useParams } from "wouter";
import { useCurrentUser, mayReadLogs } from "../../app/permissions";
import { useTexts } from "../../i18n";
import { ErrorBox } from "../../ui/ErrorBox";
import { Loading } from "../../ui/Loading";
import { PageHead } from "../../ui/PageHead";
import { Panel } from "../../ui/Panel";
import { StateBadge } from "../../ui/StateBadge";
import { useNow } from "../../ui/Time";
import { Actions } from "./Actions";
import { Facts } from "./Facts";
import { Gpus } from "./Gpus";
import styles from "./Job.module.css";
import { HangWarnings } from "./HangWarnings";
import { Logs } from "./Logs";
import { Neighbours } from "./Neighbours";
import { Notices } from "./Notices";
import { Progress } from "./Progress";
import { isOnCards, isWaiting, type Job, useJob, useStory, useWhen } from "./queries";
import { Requests } from "./Requests";
import { Story } from "./Story";
import { text } from "./texts";
import { Why } from "./Why";
import { cardsOf, statusText } from "./words";

export default function JobPage() {
  const { id = "" } = useParams<{ id: string }>();
  const job = useJob(id);
  if (job.data) return <JobPanels job={job.data} />;
  if (job.error) {
    return <><PageHead title={id} /><ErrorBox error={job.error} onRetry={() => void job.refetch()} /></>;
  }
  return <Loading />;
}

function JobPanels({ job }: { job: Job }) {
  const me = useCurrentUser();
  const t = useTexts(text);
  const story = useStory(job.id);
  const lines = story.data ?? [];
  const cards = cardsOf(job, lines);
  return (
    <>
      <PageHead title={job.name || job.id} note={<StateBadge state={job.state} hangs={job.hang_warnings} />}><Actions job={job} /></PageHead>
      <Lead job={job} />
      <div className={styles.columns}>
        <div className={styles.main}>
          {isWaiting(job) && <Why job={job} />}
          {job.hang_warnings.length > 0 && <HangWarnings warnings={job.hang_warnings} />}
          {job.started_s != null && <Progress key={job.attempt} job={job} />}
          {mayReadLogs(me, job)
            ? <Logs key={job.id} job={job} />
            : <Panel title={t("logs")}><p className={styles.quiet}>{t("noLogs")}</p></Panel>}
          <Requests job={job} />
          {job.started_s != null && <Gpus job={job} cards={cards} />}
        </div>
        <div className={styles.side}>
          <Facts job={job} cards={cards} />
          {isOnCards(job) && <Neighbours job={job} />}
          <Story lines={lines} />
          <Notices job={job} />
        </div>
      </div>
    </>
  );
}

/** Status in one sentence, and the cause if the job ended. */
function Lead({ job }: { job: Job }) {
  const t = useTexts(text);
  const when = useWhen(job);
  const now_s = useNow(1000);
  return (
    <div className={styles.lead}>
      <p>{statusText(job, when.data, now_s, t)}</p>
      {job.cause && <p className={styles.cause}>{job.cause}</p>}
    </div>
  );
}
