import { ApiError } from "../api/errors";
import { useT } from "../i18n";
import { Button } from "./Button";
import styles from "./ErrorBox.module.css";

/** An error in the service's own words, with its cure. */
export function ErrorBox({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const say = useT();
  const isOurs = error instanceof ApiError;
  const message = isOurs ? error.message : say("common.offline");
  return (
    <div className={styles.box} role="alert">
      <p>{message}</p>
      {isOurs && error.cure && <p className={styles.cure}>{error.cure}</p>}
      {onRetry && <Button isSmall onClick={onRetry}>{say("common.retry")}</Button>}
    </div>
  );
}
