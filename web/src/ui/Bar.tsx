import styles from "./Bar.module.css";

/** Bar that shows a ratio. The width is set by script; the content security policy forbids style attributes in HTML. */
export function Bar({ ratio, kind = "util" }: { ratio: number | null | undefined; kind?: "util" | "mem" }) {
  const width = `${Math.min(1, Math.max(0, ratio ?? 0)) * 100}%`;
  return <span className={styles.bar} data-kind={kind} aria-hidden="true"><span style={{ width }} /></span>;
}
