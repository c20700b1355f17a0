import { type Language, setLanguage, useLanguage, useT } from "../i18n";
import styles from "./Settings.module.css";
import { setTheme, type Theme, useTheme } from "./theme";

/** Theme and language, on the login page and in the frame. */
export function Settings() {
  const t = useT();
  const language = useLanguage();
  const theme = useTheme();
  return (
    <div className={styles.settings}>
      <select aria-label={t("theme.label")} value={theme} onChange={(event) => setTheme(event.target.value as Theme)}>
        <option value="auto">{t("theme.auto")}</option>
        <option value="light">{t("theme.light")}</option>
        <option value="dark">{t("theme.dark")}</option>
      </select>
      <select
        aria-label={t("language.label")} value={language}
        onChange={(event) => setLanguage(event.target.value as Language)}
      >
        <option value="en" lang="en">English</option>
        <option value="ko" lang="ko">한국어</option>
      </select>
    </div>
  );
}
