import { useTexts } from "../../i18n";
import { clock, instant } from "../../i18n/format";
import { Panel } from "../../ui/Panel";
import { StateBadge } from "../../ui/StateBadge";
import type { StoryLine } from "./queries";
import styles from "./Story.module.css";
import { text } from "./texts";
import { causeWords, kindWords } from "./words";

const WITH_SECONDS = { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false } as const;

/** Every transition with its cause, oldest first. */
export function Story({ lines }: { lines: readonly StoryLine[] }) {
  const say = useTexts(text);
  return (
    <Panel title={say("story")}>
      <ol className={styles.story} tabIndex={0} aria-label={say("story")}>
        {lines.map((line, n) => <One key={line.id} line={line} before={lines[n - 1]} />)}
      </ol>
    </Panel>
  );
}

function One({ line, before }: { line: StoryLine; before: StoryLine | undefined }) {
  const say = useTexts(text);
  const kind = kindWords(line, say);
  const cause = causeWords(line, say);
  return (
    <li className={styles.line}>
      <time dateTime={new Date(line.at_s * 1000).toISOString()} title={instant(line.at_s)}>{short(line.at_s)}</time>
      <div>
        <p className={styles.what}>
          {kind ? <strong>{kind}</strong> : <StateBadge state={line.state} />}
          {line.attempt > 0 && line.attempt !== before?.attempt && <span>{say("attemptN", { n: line.attempt + 1 })}</span>}
          {line.actor && <span>{say("by", { who: line.actor })}</span>}
        </p>
        {cause && <p className={styles.cause}>{cause}</p>}
      </div>
    </li>
  );
}

/** To the second today; else day and minute. */
function short(at_s: number): string {
  const then = new Date(at_s * 1000);
  return then.toDateString() === new Date().toDateString() ? then.toLocaleTimeString("en-GB", WITH_SECONDS) : clock(at_s);
}
