import { useT } from "../i18n";
import styles from "./Loading.module.css";

/** Shown late: most answers are quicker than the eye. */
export function Loading() {
  return <p className={styles.loading} role="status">{useT()("common.loading")}</p>;
}
