import { Link, useLocation } from "wouter";
import { useT } from "../i18n";
import styles from "./Navigation.module.css";
import { type Page, PAGES } from "./pages";
import type { Me } from "./permissions";
import { session } from "./session";
import { Settings } from "./Settings";

export function Navigation({ me }: { me: Me }) {
  const t = useT();
  const [path] = useLocation();
  const shown = PAGES.filter((page) => !page.isHidden && (page.isFor?.(me) ?? true));
  return (
    <nav id="navigation" className={styles.nav} aria-label={t("nav.label")}>
      <ul className={styles.list}>
        {shown.map((page) => (
          <li key={page.name}>
            <Link href={page.path} className={styles.link} aria-current={isCurrent(page, path) ? "page" : undefined}>
              <svg viewBox="0 0 24 24" width="18" height="18" aria-hidden="true"><path d={page.icon} /></svg>
              {t(page.title)}
            </Link>
          </li>
        ))}
      </ul>
      <div className={styles.foot}>
        <p className={styles.user}>
          <strong>{me.user}</strong>
          <span>{me.tenant} · {t(`role.${me.role}`)}</span>
        </p>
        <Settings />
        <button type="button" className={styles.out} onClick={() => session.end("left")}>{t("login.out")}</button>
      </div>
    </nav>
  );
}

/** Job pages belong to the queue page, which links to them. */
function isCurrent(page: Page, path: string): boolean {
  return page.path === path || (page.name === "queue" && path.startsWith("/jobs/"));
}
