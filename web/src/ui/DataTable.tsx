import type { ReactNode } from "react";
import styles from "./DataTable.module.css";

export interface Column<T> {
  name: string;
  cell: (row: T) => ReactNode;
  isNumber?: boolean;
  /** Longer text that may wrap. */
  isText?: boolean;
  /** The row header, which screen readers read before the other cells. */
  isHead?: boolean;
  /** The heading is for screen readers only, for example above buttons. */
  isQuiet?: boolean;
}
interface Props<T> {
  label: string;
  rows: readonly T[];
  columns: readonly Column<T>[];
  rowKey: (row: T) => string | number;
}

/** Plain table that scrolls sideways if it is too wide. For a few hundred rows; use VirtualTable for more. */
export function DataTable<T>({ label, rows, columns, rowKey }: Props<T>) {
  return (
    <div className={styles.around} tabIndex={0} role="group" aria-label={label}>
      <table className={styles.table}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.name} scope="col" data-number={column.isNumber || undefined}>
                {column.isQuiet ? <span className="visually-hidden">{column.name}</span> : column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => <tr key={rowKey(row)}>{columns.map((column) => <Cell key={column.name} column={column} row={row} />)}</tr>)}
        </tbody>
      </table>
    </div>
  );
}

function Cell<T>({ column, row }: { column: Column<T>; row: T }) {
  if (column.isHead) return <th scope="row">{column.cell(row)}</th>;
  return <td data-number={column.isNumber || undefined} data-text={column.isText || undefined}>{column.cell(row)}</td>;
}
