import { ApiError } from "../api/errors";
import { useT } from "../i18n";
import { Button } from "./Button";
import styles from "./ErrorBox.module.css";

/** Error message of the service, with its cure. */
export function ErrorBox({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const t = useT();
  const isApiError = error instanceof ApiError;
  const message = isApiError ? error.message : t("common.offline");
  return (
    <div className={styles.box} role="alert">
      <p>{message}</p>
      {isApiError && error.cure && <p className={styles.cure}>{error.cure}</p>}
      {onRetry && <Button isSmall onClick={onRetry}>{t("common.retry")}</Button>}
    </div>
  );
}
