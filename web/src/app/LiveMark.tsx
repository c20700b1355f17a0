import { useLive } from "../api/live";
import { useT } from "../i18n";
import styles from "./LiveMark.module.css";

/** State of the event stream. Only a lost connection is shown as text. */
export function LiveMark() {
  const t = useT();
  const state = useLive();
  return (
    <span className={styles.mark} data-state={state} role="status" title={t(`live.${state}`)}>
      <i aria-hidden="true" />
      <span className={state === "lost" ? styles.text : "visually-hidden"}>{t(`live.${state}`)}</span>
    </span>
  );
}
