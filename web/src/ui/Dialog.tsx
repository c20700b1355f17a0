import { type ReactNode, useEffect, useRef } from "react";
import styles from "./Dialog.module.css";

interface Props {
  title: string;
  /** For dialogs with tables. */
  isWide?: boolean;
  onClose: () => void;
  children: ReactNode;
}

/** The browser's modal dialog. It keeps the focus inside, closes on Escape and restores the focus. */
export function Dialog({ title, isWide, onClose, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const shown = dialog.current;
    if (shown && !shown.open) shown.showModal();
    return () => shown?.close();
  }, []);
  return (
    <dialog
      ref={dialog} className={styles.dialog} data-wide={isWide || undefined} aria-labelledby="dialog-title"
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      <div className={styles.inner}>
        <h2 id="dialog-title">{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

export function DialogButtons({ children }: { children: ReactNode }) {
  return <div className={styles.buttons}>{children}</div>;
}
