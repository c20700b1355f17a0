import type { ReactNode } from "react";
import styles from "./DataTable.module.css";

export interface Column<T> {
  name: string;
  cell: (row: T) => ReactNode;
  isNumber?: boolean;
  /** Longer text, which may take several lines. */
  isText?: boolean;
  /** The row's name: read out before its other cells. */
  isHead?: boolean;
  /** The heading is for screen readers only, as over buttons. */
  isQuiet?: boolean;
}
interface Props<T> {
  label: string;
  rows: readonly T[];
  columns: readonly Column<T>[];
  rowKey: (row: T) => string | number;
}

/** A plain table that scrolls sideways where it is too wide. For some hundred rows; more go into a VirtualTable. */
export function DataTable<T>({ label, rows, columns, rowKey }: Props<T>) {
  return (
    <div className={styles.around} tabIndex={0} role="group" aria-label={label}>
      <table className={styles.table}>
        <thead>
          <tr>
            {columns.map((one) => (
              <th key={one.name} scope="col" data-number={one.isNumber || undefined}>
                {one.isQuiet ? <span className="visually-hidden">{one.name}</span> : one.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => <tr key={rowKey(row)}>{columns.map((one) => <Cell key={one.name} column={one} row={row} />)}</tr>)}
        </tbody>
      </table>
    </div>
  );
}

function Cell<T>({ column, row }: { column: Column<T>; row: T }) {
  if (column.isHead) return <th scope="row">{column.cell(row)}</th>;
  return <td data-number={column.isNumber || undefined} data-text={column.isText || undefined}>{column.cell(row)}</td>;
}
