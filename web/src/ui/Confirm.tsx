import type { ReactNode } from "react";
import { useT } from "../i18n";
import { Button } from "./Button";
import { Dialog, DialogButtons } from "./Dialog";

interface Props {
  title: string;
  /** What the button does, in words: "Cancel the job", never "OK". */
  action: string;
  keep?: string;
  isDanger?: boolean;
  isBusy?: boolean;
  onYes: () => void;
  onNo: () => void;
  children?: ReactNode;
}

/** Asks before something happens that cannot be undone. The way back has the focus. */
export function Confirm({ title, action, keep, isDanger, isBusy, onYes, onNo, children }: Props) {
  const say = useT();
  return (
    <Dialog title={title} onClose={onNo}>
      {children}
      <DialogButtons>
        <Button autoFocus onClick={onNo}>{keep ?? say("common.cancel")}</Button>
        <Button kind={isDanger ? "danger" : "primary"} disabled={isBusy} onClick={onYes}>{action}</Button>
      </DialogButtons>
    </Dialog>
  );
}
