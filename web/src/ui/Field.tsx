import { type ReactNode, useId } from "react";
import styles from "./Field.module.css";

export interface ControlProps {
  id: string;
  "aria-invalid": boolean | undefined;
  "aria-describedby": string | undefined;
}
interface Props {
  label: string;
  error?: string;
  hint?: string;
  isWide?: boolean;
  children: (control: ControlProps) => ReactNode;
}

/** A labelled field. An error or hint is shown below it, and screen readers read it with the field. */
export function Field({ label, error = "", hint = "", isWide = false, children }: Props) {
  const id = useId();
  const note = error || hint;
  return (
    <div className={styles.field} data-wide={isWide || undefined}>
      <label htmlFor={id}>{label}</label>
      {children({ id, "aria-invalid": error ? true : undefined, "aria-describedby": note ? `${id}-note` : undefined })}
      {note && <p id={`${id}-note`} className={error ? styles.error : styles.hint}>{note}</p>}
    </div>
  );
}

/** Fields side by side if there is enough space. */
export function Fields({ children }: { children: ReactNode }) {
  return <div className={styles.fields}>{children}</div>;
}
