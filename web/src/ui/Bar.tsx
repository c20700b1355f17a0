import styles from "./Bar.module.css";

/** A share of a whole. Widths are set by script, which the content policy allows; style attributes in HTML it does not. */
export function Bar({ ratio, kind = "util" }: { ratio: number | null | undefined; kind?: "util" | "mem" }) {
  const width = `${Math.min(1, Math.max(0, ratio ?? 0)) * 100}%`;
  return <span className={styles.bar} data-kind={kind} aria-hidden="true"><span style={{ width }} /></span>;
}
