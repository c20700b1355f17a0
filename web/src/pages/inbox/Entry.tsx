import { Link } from "wouter";
import type { Schemas } from "../../api/client";
import { useTexts } from "../../i18n";
import { Badge, type Tone } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Time } from "../../ui/Time";
import styles from "./Inbox.module.css";
import { text } from "./texts";

type InboxEntry = Schemas["InboxEntry"];

const TONES = {
  queued: "plain", started: "accent", eta_moved: "warn", start_late: "warn", finished: "good", failed: "bad", held: "warn",
  retried: "warn", hung: "warn", overrun: "warn", preempted: "info", lost: "bad", cancelled: "plain",
} as const satisfies Record<string, Tone>;

/** One notice: what happened, why, what to do. */
export function Entry({ entry, onRead }: { entry: InboxEntry; onRead: () => void }) {
  const t = useTexts(text);
  const cure = cureOf(entry.body);
  const kind = entry.kind in TONES ? (entry.kind as keyof typeof TONES) : null;
  return (
    <li className={styles.entry} data-unread={!entry.read || undefined}>
      <span className={styles.kind}><Badge tone={kind ? TONES[kind] : "plain"}>{kind ? t(`kind.${kind}`) : entry.kind}</Badge></span>
      <div className={styles.text}>
        <p className={styles.title}>
          {entry.job ? <Link href={`/jobs/${entry.job}`}>{entry.title}</Link> : entry.title}
          {!entry.read && <span className="visually-hidden"> ({t("unread")})</span>}
        </p>
        {entry.reason?.text && <p className={styles.why}>{entry.reason.text}</p>}
        {entry.failed.length > 0 && <Failed jobs={entry.failed} />}
        {cure && <p className={styles.cure}>{cure}</p>}
      </div>
      <span className={styles.when}><Time at_s={entry.at_s} /></span>
      <span className={styles.action}>{!entry.read && <Button kind="quiet" isSmall onClick={onRead}>{t("read")}</Button>}</span>
    </li>
  );
}

function Failed({ jobs }: { jobs: InboxEntry["failed"] }) {
  const t = useTexts(text);
  return (
    <p className={styles.why}>
      {t("failed")} {jobs.map((job, at) => <span key={job.id}>{at > 0 && ", "}<Link href={`/jobs/${job.id}`}>{job.name}</Link></span>)}
    </p>
  );
}

const CURE = "What to do: ";
const NOTHING = "Nothing";

/** The last line of a notice, unless there is nothing to do. */
function cureOf(body: string): string {
  const line = body.split("\n").at(-1) ?? "";
  const cure = line.startsWith(CURE) ? line.slice(CURE.length) : "";
  return cure.startsWith(NOTHING) ? "" : cure;
}
