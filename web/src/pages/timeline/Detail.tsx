import { useEffect, useRef } from "react";
import { Link } from "wouter";
import { useT, useTexts } from "../../i18n";
import { percent } from "../../i18n/format";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { StateBadge } from "../../ui/StateBadge";
import styles from "./Detail.module.css";
import type { Item } from "./items";
import { type Key, text } from "./texts";
import { cardsOf, endOf, nameOf, startOf, whatOf } from "./words";

/** The chosen bar, beside the picture or below it. */
export function Detail({ item, onClose }: { item: Item; onClose: () => void }) {
  const say = useTexts(text);
  const common = useT();
  const panel = useRef<HTMLElement>(null);
  useEffect(() => {
    panel.current?.scrollIntoView({ block: "nearest" });
  }, [item.key]);
  const isAhead = item.kind === "reserved" || item.kind === "planned";
  const note = item.kind === "reserved" ? say("promise") : item.kind === "planned" ? say("forecast") : sourceOf(item, say);
  const facts: [string, string][] = [
    [say("owner"), item.owner],
    [say("cards"), cardsOf(item)],
    [say("share"), item.share < 1 ? say("part", { share: percent(item.share) }) : ""],
    [say("attempt"), item.attempt > 0 ? String(item.attempt + 1) : ""],
    [say("position"), item.position === null ? "" : String(item.position)],
    [say("start"), startOf(item, say)],
    [say("end"), endOf(item, say)],
  ];
  return (
    <aside ref={panel} className={styles.detail} aria-label={say("job")}>
      <h2>{nameOf(item, say)}</h2>
      <p>{isAhead || item.job === null ? <Badge tone={isAhead ? "info" : "plain"}>{whatOf(item, say)}</Badge> : <StateBadge state={item.state} />}</p>
      <dl className={styles.facts}>
        {facts.filter(([, value]) => value).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {note && <p className={styles.note}>{note}</p>}
      <div className={styles.actions}>
        {item.job && <Link href={`/jobs/${item.job}`}>{say("openJob")}</Link>}
        <Button isSmall onClick={onClose}>{common("common.close")}</Button>
      </div>
    </aside>
  );
}

function sourceOf(item: Item, say: ReturnType<typeof useTexts<Key>>): string {
  const key = `source.${item.source}`;
  return key in text.en ? say(key as Key) : "";
}
