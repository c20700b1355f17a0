import { useTexts } from "../../i18n";
import { clock, instant } from "../../i18n/format";
import { Panel } from "../../ui/Panel";
import { StateBadge } from "../../ui/StateBadge";
import type { StoryLine } from "./queries";
import styles from "./Story.module.css";
import { text } from "./texts";
import { causeText, kindText } from "./words";

const WITH_SECONDS = { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false } as const;

/** All events of the job with their causes, oldest first. */
export function Story({ lines }: { lines: readonly StoryLine[] }) {
  const t = useTexts(text);
  return (
    <Panel title={t("story")}>
      <ol className={styles.story} tabIndex={0} aria-label={t("story")}>
        {lines.map((line, n) => <StoryItem key={line.id} line={line} previous={lines[n - 1]} />)}
      </ol>
    </Panel>
  );
}

function StoryItem({ line, previous }: { line: StoryLine; previous: StoryLine | undefined }) {
  const t = useTexts(text);
  const kind = kindText(line, t);
  const cause = causeText(line, t);
  const shown = evidence(line);
  return (
    <li className={styles.line}>
      <time dateTime={new Date(line.at_s * 1000).toISOString()} title={instant(line.at_s)}>{short(line.at_s)}</time>
      <div>
        <p className={styles.what}>
          {kind ? <strong>{kind}</strong> : <StateBadge state={line.state} />}
          {line.attempt > 0 && line.attempt !== previous?.attempt && <span>{t("attemptN", { n: line.attempt + 1 })}</span>}
          {line.actor && <span>{t("by", { who: line.actor })}</span>}
        </p>
        {cause && <p className={styles.cause}>{cause}</p>}
        {shown.length > 0 && (
          <details className={styles.evidence}>
            <summary>{t("evidence", { n: shown.length })}</summary>
            <pre tabIndex={0}>{shown.join("\n")}</pre>
          </details>
        )}
      </div>
    </li>
  );
}

/** Lines of output or stacks behind a hang. Only those who may read the logs receive them. */
function evidence(line: StoryLine): readonly string[] {
  const data = line.data as { private?: unknown } | null;
  return Array.isArray(data?.private) ? data.private.map(String) : [];
}

/** Time with seconds if it is today, otherwise date and time. */
function short(at_s: number): string {
  const then = new Date(at_s * 1000);
  return then.toDateString() === new Date().toDateString() ? then.toLocaleTimeString("en-GB", WITH_SECONDS) : clock(at_s);
}
