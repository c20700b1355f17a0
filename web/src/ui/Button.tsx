import type { ButtonHTMLAttributes } from "react";
import styles from "./Button.module.css";

type Props = ButtonHTMLAttributes<HTMLButtonElement> & { kind?: "plain" | "primary" | "danger" | "quiet"; isSmall?: boolean };

export function Button({ kind = "plain", isSmall = false, type = "button", ...rest }: Props) {
  return <button type={type} className={styles.button} data-kind={kind} data-small={isSmall || undefined} {...rest} />;
}
