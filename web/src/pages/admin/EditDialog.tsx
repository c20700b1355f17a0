import type { FormEvent, ReactNode } from "react";
import { ApiError } from "../../api/errors";
import { useT } from "../../i18n";
import { Button } from "../../ui/Button";
import { Dialog, DialogButtons } from "../../ui/Dialog";
import { ErrorBox } from "../../ui/ErrorBox";
import { Fields } from "../../ui/Field";
import styles from "./Admin.module.css";

interface Props {
  title: string;
  action: string;
  isBusy: boolean;
  error: unknown;
  /** Fields that show the service's error themselves. */
  fields: readonly string[];
  onSave: () => void;
  onClose: () => void;
  children: ReactNode;
}

export function EditDialog({ title, action, isBusy, error, fields, onSave, onClose, children }: Props) {
  const common = useT();
  const isShown = error instanceof ApiError && fields.includes(error.field);
  const send = (event: FormEvent) => {
    event.preventDefault();
    onSave();
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form className={styles.form} onSubmit={send}>
        <Fields>{children}</Fields>
        {error != null && !isShown && <ErrorBox error={error} />}
        <DialogButtons>
          <Button onClick={onClose}>{common("common.cancel")}</Button>
          <Button kind="primary" type="submit" disabled={isBusy}>{action}</Button>
        </DialogButtons>
      </form>
    </Dialog>
  );
}

/** Returns the service's error about a field. */
export function errorAt(error: unknown, field: string): string {
  if (!(error instanceof ApiError) || error.field !== field) return "";
  return error.cure ? `${error.message} – ${error.cure}` : error.message;
}
