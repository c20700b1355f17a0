import { useLive } from "../api/live";
import { useT } from "../i18n";
import styles from "./LiveMark.module.css";

/** Whether what is shown is what is. Loss is said aloud; the rest is quiet. */
export function LiveMark() {
  const say = useT();
  const state = useLive();
  return (
    <span className={styles.mark} data-state={state} role="status" title={say(`live.${state}`)}>
      <i aria-hidden="true" />
      <span className={state === "lost" ? styles.text : "visually-hidden"}>{say(`live.${state}`)}</span>
    </span>
  );
}
