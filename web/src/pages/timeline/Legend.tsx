import { useTexts } from "../../i18n";
import styles from "./Legend.module.css";
import { text } from "./texts";

const LOOKS = ["running", "expected", "uncertain", "reserved", "planned", "done", "bad", "stopped", "window"] as const;

export function Legend() {
  const say = useTexts(text);
  return (
    <ul className={styles.legend} aria-label={say("legend")}>
      {LOOKS.map((look) => <li key={look}><i data-look={look} aria-hidden="true" />{say(`look.${look}`)}</li>)}
    </ul>
  );
}
