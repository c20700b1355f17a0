import { Link } from "wouter";
import { useUnread } from "../api/queries";
import { useT } from "../i18n";
import { count } from "../i18n/format";
import styles from "./Bell.module.css";
import { BELL } from "./pages";

const MAX_SHOWN = 99;

/** Link to the inbox with the number of unread notices. */
export function Bell() {
  const t = useT();
  const unread = useUnread().data ?? 0;
  const name = unread > 0 ? t("nav.unread", { n: count(unread) }) : t("nav.inbox");
  return (
    <Link href="/inbox" className={styles.bell} aria-label={name} title={name}>
      <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true"><path d={BELL} /></svg>
      {unread > 0 && <span className={styles.count} aria-hidden="true">{unread > MAX_SHOWN ? `${MAX_SHOWN}+` : unread}</span>}
    </Link>
  );
}
