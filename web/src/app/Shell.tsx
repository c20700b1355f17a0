import { Suspense, useEffect, useRef, useState } from "react";
import { Link, Route, Switch, useLocation } from "wouter";
import { useT } from "../i18n";
import { Loading } from "../ui/Loading";
import { Bell } from "./Bell";
import { ErrorBoundary } from "./ErrorBoundary";
import { LiveMark } from "./LiveMark";
import { Logo } from "./Logo";
import { Navigation } from "./Navigation";
import { NotFound } from "./NotFound";
import { PAGES } from "./pages";
import type { Me } from "./permissions";
import styles from "./Shell.module.css";

/** The frame around every page. Navigation is at the side, on a phone behind a button at the top. */
export function Shell({ me }: { me: Me }) {
  const t = useT();
  const [path] = useLocation();
  const [isOpen, setOpen] = useState(false);
  const content = useFocusOnChange(path);
  useEffect(() => setOpen(false), [path]);
  return (
    <div className={styles.frame} data-menu={isOpen ? "open" : "closed"}>
      <a className={styles.skip} href="#content">{t("nav.skip")}</a>
      <header className={styles.bar}>
        <button
          type="button" className={styles.menu} aria-expanded={isOpen} aria-controls="navigation"
          aria-label={t("nav.menu")} onClick={() => setOpen(!isOpen)}
        >
          <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true"><path d="M4 7h16M4 12h16M4 17h16" /></svg>
        </button>
        <Link href="/" className={styles.home}><Logo /></Link>
        <Bell />
        <LiveMark />
      </header>
      <Navigation me={me} />
      <main id="content" ref={content} tabIndex={-1} className={styles.content}>
        <ErrorBoundary key={path}>
          <Suspense fallback={<Loading />}>
            <Switch>
              {PAGES.map((page) => <Route key={page.name} path={page.path} component={page.component} />)}
              <Route component={NotFound} />
            </Switch>
          </Suspense>
        </ErrorBoundary>
      </main>
    </div>
  );
}

/** Moves the focus to the new page, as a page load would, for keyboard and screen reader users. */
function useFocusOnChange(path: string) {
  const content = useRef<HTMLElement>(null);
  const before = useRef(path);
  useEffect(() => {
    if (before.current === path) return;
    before.current = path;
    content.current?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }, [path]);
  return content;
}
