import { type Language, setLanguage, useLanguage, useT } from "../i18n";
import styles from "./Settings.module.css";
import { setTheme, type Theme, useTheme } from "./theme";

/** Theme and language, on the login page and in the frame. */
export function Settings() {
  const say = useT();
  const language = useLanguage();
  const theme = useTheme();
  return (
    <div className={styles.settings}>
      <select aria-label={say("theme.label")} value={theme} onChange={(event) => setTheme(event.target.value as Theme)}>
        <option value="auto">{say("theme.auto")}</option>
        <option value="light">{say("theme.light")}</option>
        <option value="dark">{say("theme.dark")}</option>
      </select>
      <select
        aria-label={say("language.label")} value={language}
        onChange={(event) => setLanguage(event.target.value as Language)}
      >
        <option value="en" lang="en">English</option>
        <option value="ko" lang="ko">한국어</option>
      </select>
    </div>
  );
}
