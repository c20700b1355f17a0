import { type ReactNode, useId } from "react";
import styles from "./Panel.module.css";

interface Props {
  title: string;
  note?: ReactNode;
  tools?: ReactNode;
  children: ReactNode;
}

/** A section of a page with a heading. */
export function Panel({ title, note, tools, children }: Props) {
  const id = useId();
  return (
    <section className={styles.panel} aria-labelledby={id}>
      <div className={styles.head}>
        <h2 id={id}>{title}</h2>
        {note && <p className={styles.note}>{note}</p>}
        {tools && <div className={styles.tools}>{tools}</div>}
      </div>
      {children}
    </section>
  );
}
