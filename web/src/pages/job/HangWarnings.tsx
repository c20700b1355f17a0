import { useTexts } from "../../i18n";
import { fromNow } from "../../i18n/format";
import { Panel } from "../../ui/Panel";
import { useNow } from "../../ui/Time";
import type { Job } from "./queries";
import { text } from "./texts";
import styles from "./Why.module.css";

/** What hang detection warns about now: the evidence, what to do, and when the job is stopped. */
export function HangWarnings({ warnings }: { warnings: Job["hang_warnings"] }) {
  const t = useTexts(text);
  const now_s = useNow(1000);
  return (
    <Panel title={t("hangWarning")}>
      <ul className={styles.reasons}>
        {warnings.map((one) => (
          <li key={one.rule}>
            <strong>{one.rule}: {one.message}</strong>
            {one.cure && <span>{one.cure}</span>}
            <span>{one.stops_s == null ? t("hangStays") : t("hangStops", { when: fromNow(Math.max(one.stops_s, now_s), now_s) })}</span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
