import type { ReactNode } from "react";
import { useT } from "../i18n";
import { Button } from "./Button";
import { Dialog, DialogButtons } from "./Dialog";

interface Props {
  title: string;
  /** Label of the button, for example "Cancel the job", never "OK". */
  action: string;
  keep?: string;
  isDanger?: boolean;
  isBusy?: boolean;
  onYes: () => void;
  onNo: () => void;
  children?: ReactNode;
}

/** Confirmation of an action that cannot be undone. The cancel button has the focus. */
export function Confirm({ title, action, keep, isDanger, isBusy, onYes, onNo, children }: Props) {
  const t = useT();
  return (
    <Dialog title={title} onClose={onNo}>
      {children}
      <DialogButtons>
        <Button autoFocus onClick={onNo}>{keep ?? t("common.cancel")}</Button>
        <Button kind={isDanger ? "danger" : "primary"} disabled={isBusy} onClick={onYes}>{action}</Button>
      </DialogButtons>
    </Dialog>
  );
}
