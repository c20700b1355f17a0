import type { ReactNode } from "react";
import styles from "./Badge.module.css";

export type Tone = "plain" | "good" | "warn" | "bad" | "info" | "accent" | "share";

export function Badge({ tone = "plain", children }: { tone?: Tone; children: ReactNode }) {
  return <span className={styles.badge} data-tone={tone}>{children}</span>;
}
