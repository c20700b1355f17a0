import styles from "./Logo.module.css";

export function Logo() {
  return (
    <span className={styles.logo}>
      <svg viewBox="0 0 18 18" width="20" height="20" aria-hidden="true">
        <rect x="0" y="0" width="8" height="8" rx="1.8" />
        <rect x="10" y="0" width="8" height="8" rx="1.8" opacity=".45" />
        <rect x="0" y="10" width="8" height="8" rx="1.8" opacity=".45" />
        <rect x="10" y="10" width="8" height="8" rx="1.8" />
      </svg>
      gpusquad
    </span>
  );
}
