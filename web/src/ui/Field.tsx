import { type ReactNode, useId } from "react";
import styles from "./Field.module.css";

export interface Given {
  id: string;
  "aria-invalid": boolean | undefined;
  "aria-describedby": string | undefined;
}
interface Props {
  label: string;
  error?: string;
  hint?: string;
  isWide?: boolean;
  children: (given: Given) => ReactNode;
}

/** A labelled field. What is wrong with it stands below it, and is read out with it. */
export function Field({ label, error = "", hint = "", isWide = false, children }: Props) {
  const id = useId();
  const told = error || hint;
  return (
    <div className={styles.field} data-wide={isWide || undefined}>
      <label htmlFor={id}>{label}</label>
      {children({ id, "aria-invalid": error ? true : undefined, "aria-describedby": told ? `${id}-told` : undefined })}
      {told && <p id={`${id}-told`} className={error ? styles.error : styles.hint}>{told}</p>}
    </div>
  );
}

/** Fields side by side where there is room. */
export function Fields({ children }: { children: ReactNode }) {
  return <div className={styles.fields}>{children}</div>;
}
