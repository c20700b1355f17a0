import { useTexts } from "../../i18n";
import styles from "./Legend.module.css";
import { text } from "./texts";

const LOOKS = ["running", "expected", "uncertain", "reserved", "planned", "done", "bad", "stopped", "window"] as const;

export function Legend() {
  const t = useTexts(text);
  return (
    <ul className={styles.legend} aria-label={t("legend")}>
      {LOOKS.map((look) => <li key={look}><i data-look={look} aria-hidden="true" />{t(`look.${look}`)}</li>)}
    </ul>
  );
}
