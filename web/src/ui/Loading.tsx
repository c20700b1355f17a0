import { useT } from "../i18n";
import styles from "./Loading.module.css";

/** Shown with a delay, because most responses are fast. */
export function Loading() {
  return <p className={styles.loading} role="status">{useT()("common.loading")}</p>;
}
