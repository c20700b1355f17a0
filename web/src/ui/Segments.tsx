import styles from "./Segments.module.css";

interface Props<T extends string> {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (next: T) => void;
}

/** One of a few. */
export function Segments<T extends string>({ label, value, options, onChange }: Props<T>) {
  return (
    <div className={styles.segments} role="group" aria-label={label}>
      {options.map(([one, text]) => (
        <button key={one} type="button" aria-pressed={one === value} onClick={() => onChange(one)}>{text}</button>
      ))}
    </div>
  );
}
