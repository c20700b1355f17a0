import { useState } from "react";
import { Link } from "wouter";
import { useTexts } from "../../i18n";
import { count } from "../../i18n/format";
import { Button } from "../../ui/Button";
import { Empty } from "../../ui/Empty";
import styles from "./BarTable.module.css";
import type { Item } from "./items";
import { text } from "./texts";
import { cardsOf, endOf, nameOf, startOf, whatOf } from "./words";

const PAGE_ROWS = 200;

/** The timeline as a table, for screen readers and for copying. */
export function BarTable({ items, onChoose }: { items: readonly Item[]; onChoose: (key: string) => void }) {
  const t = useTexts(text);
  const [limit, setLimit] = useState(PAGE_ROWS);
  if (items.length === 0) return <Empty text={t("noBars")} />;
  return (
    <div className={styles.box} tabIndex={0} role="region" aria-label={t("chartLabel")}>
      <table className={styles.table}>
        <thead>
          <tr>{(["job", "what", "cards", "start", "end", "owner"] as const).map((key) => <th key={key} scope="col">{t(key)}</th>)}</tr>
        </thead>
        <tbody>
          {items.slice(0, limit).map((item) => (
            <tr key={item.key} onClick={() => onChoose(item.key)}>
              <th scope="row">{item.job ? <Link href={`/jobs/${item.job}`}>{nameOf(item, t)}</Link> : nameOf(item, t)}</th>
              <td>{whatOf(item, t)}</td>
              <td>{cardsOf(item)}</td>
              <td>{startOf(item, t)}</td>
              <td>{endOf(item, t)}</td>
              <td>{item.owner}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {items.length > limit && (
        <p className={styles.more}>
          {t("shown", { n: count(limit), all: count(items.length) })}
          <Button isSmall onClick={() => setLimit(limit + PAGE_ROWS)}>{t("more", { n: count(Math.min(PAGE_ROWS, items.length - limit)) })}</Button>
        </p>
      )}
    </div>
  );
}
