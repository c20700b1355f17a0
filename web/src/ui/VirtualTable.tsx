import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type ReactNode, useLayoutEffect, useRef, useState } from "react";
import styles from "./VirtualTable.module.css";

export interface Col<T> {
  name: string;
  title: string;
  /** Track of a CSS grid: "80px", "minmax(120px, 2fr)". */
  width: string;
  cell: (row: T) => ReactNode;
  isNumber?: boolean;
  /** Hidden on a phone, where the row becomes a card. */
  isWideOnly?: boolean;
  isSortable?: boolean;
  /** The title is for screen readers only. */
  isTitleHidden?: boolean;
}

interface Props<T> {
  label: string;
  rows: readonly T[];
  columns: readonly Col<T>[];
  idOf: (row: T) => string;
  sort?: { by: string; isDown: boolean };
  onSort?: (column: string) => void;
  /** Called for a key press while the focus is in a row. */
  onRowKey?: (row: T, event: KeyboardEvent) => void;
  row_px?: number;
}

/** Table of any length: only rows near the viewport are rendered. ↑ and ↓ move between rows. */
export function VirtualTable<T>({ label, rows, columns, idOf, sort, onSort, onRowKey, row_px = 38 }: Props<T>) {
  const body = useRef<HTMLDivElement>(null);
  const [top_px, setTop] = useState(0);
  useLayoutEffect(() => setTop(body.current?.offsetTop ?? 0), []);
  const virtual = useWindowVirtualizer({
    count: rows.length, estimateSize: () => row_px, overscan: 12, scrollMargin: top_px,
    getItemKey: (at) => idOf(rows[at]!),
  });
  const tracks = columns.map((column) => column.width).join(" ");

  function move(event: KeyboardEvent, at: number) {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!step || isTyping(event)) return onRowKey?.(rows[at]!, event);
    const next = at + step;
    if (next < 0 || next >= rows.length) return;
    event.preventDefault();
    virtual.scrollToIndex(next, { align: "auto" });
    requestAnimationFrame(() => focusRow(body.current, next));
  }

  return (
    <div className={styles.table} role="table" aria-label={label} aria-rowcount={rows.length + 1} style={{ "--tracks": tracks } as object}>
      <div role="rowgroup" className={styles.head}>
        <div role="row" className={styles.row} aria-rowindex={1}>
          {columns.map((column) => <Head key={column.name} column={column} sort={sort} onSort={onSort} />)}
        </div>
      </div>
      <div role="rowgroup" ref={body} className={styles.body} style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => (
          <div
            key={item.key} role="row" className={styles.row} aria-rowindex={item.index + 2} data-at={item.index}
            style={{ height: row_px, transform: `translateY(${item.start - top_px}px)` }}
            onKeyDown={(event) => move(event, item.index)}
          >
            {columns.map((column) => (
              <div
                key={column.name} role="cell" className={styles.cell} data-number={column.isNumber || undefined}
                data-wide={column.isWideOnly || undefined}
              >
                {column.cell(rows[item.index]!)}
              </div>
            ))}
          </div>
        ))}
      </div>
    </div>
  );
}

function Head<T>({ column, sort, onSort }: { column: Col<T> } & Pick<Props<T>, "sort" | "onSort">) {
  const isSorted = sort?.by === column.name;
  return (
    <div
      role="columnheader" className={styles.cell} data-number={column.isNumber || undefined}
      data-wide={column.isWideOnly || undefined}
      aria-sort={isSorted ? (sort.isDown ? "descending" : "ascending") : undefined}
    >
      {column.isSortable && onSort ? (
        <button type="button" onClick={() => onSort(column.name)}>
          {column.title}
          <span aria-hidden="true">{isSorted ? (sort.isDown ? "↓" : "↑") : ""}</span>
        </button>
      ) : (
        <span className={column.isTitleHidden ? "visually-hidden" : undefined}>{column.title}</span>
      )}
    </div>
  );
}

function focusRow(body: HTMLElement | null, at: number): void {
  body?.querySelector<HTMLElement>(`[data-at="${at}"] :is(a, button)`)?.focus({ preventScroll: true });
}

function isTyping(event: KeyboardEvent): boolean {
  return event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
}
