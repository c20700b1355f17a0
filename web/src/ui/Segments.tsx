import styles from "./Segments.module.css";

interface Props<T extends string> {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (next: T) => void;
}

/** Choice of option of a few options. */
export function Segments<T extends string>({ label, value, options, onChange }: Props<T>) {
  return (
    <div className={styles.segments} role="group" aria-label={label}>
      {options.map(([option, text]) => (
        <button key={option} type="button" aria-pressed={option === value} onClick={() => onChange(option)}>{text}</button>
      ))}
    </div>
  );
}
