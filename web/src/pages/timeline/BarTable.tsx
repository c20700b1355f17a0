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

const AT_ONCE = 200;

/** The picture in words: for screen readers, for copying, and for those who like tables. */
export function BarTable({ items, onChoose }: { items: readonly Item[]; onChoose: (key: string) => void }) {
  const say = useTexts(text);
  const [most, setMost] = useState(AT_ONCE);
  if (items.length === 0) return <Empty text={say("noBars")} />;
  return (
    <div className={styles.box} tabIndex={0} role="region" aria-label={say("chartLabel")}>
      <table className={styles.table}>
        <thead>
          <tr>{(["job", "what", "cards", "start", "end", "owner"] as const).map((key) => <th key={key} scope="col">{say(key)}</th>)}</tr>
        </thead>
        <tbody>
          {items.slice(0, most).map((item) => (
            <tr key={item.key} onClick={() => onChoose(item.key)}>
              <th scope="row">{item.job ? <Link href={`/jobs/${item.job}`}>{nameOf(item, say)}</Link> : nameOf(item, say)}</th>
              <td>{whatOf(item, say)}</td>
              <td>{cardsOf(item)}</td>
              <td>{startOf(item, say)}</td>
              <td>{endOf(item, say)}</td>
              <td>{item.owner}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {items.length > most && (
        <p className={styles.more}>
          {say("shown", { n: count(most), all: count(items.length) })}
          <Button isSmall onClick={() => setMost(most + AT_ONCE)}>{say("more", { n: count(Math.min(AT_ONCE, items.length - most)) })}</Button>
        </p>
      )}
    </div>
  );
}
