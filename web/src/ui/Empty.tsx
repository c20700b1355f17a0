import type { ReactNode } from "react";
import styles from "./Empty.module.css";

/** Shown instead of an empty list: an explanation and what to do. */
export function Empty({ text, detail = "", action }: { text: string; detail?: string; action?: ReactNode }) {
  return (
    <div className={styles.empty}>
      <p>{text}</p>
      {detail && <p className={styles.detail}>{detail}</p>}
      {action}
    </div>
  );
}
