import { type ReactNode, useEffect } from "react";
import styles from "./PageHead.module.css";

/** Title of the page, also for the browser tab, and controls for the whole page. */
export function PageHead({ title, note, children }: { title: string; note?: ReactNode; children?: ReactNode }) {
  useEffect(() => {
    document.title = `${title} – gpusquad`;
  }, [title]);
  return (
    <div className={styles.head}>
      <h1>{title}</h1>
      {note && <div className={styles.note}>{note}</div>}
      {children && <div className={styles.tools}>{children}</div>}
    </div>
  );
}
