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

/** Details of the chosen bar, beside the chart or below it. */
export function Detail({ item, onClose }: { item: Item; onClose: () => void }) {
  const t = useTexts(text);
  const common = useT();
  const panel = useRef<HTMLElement>(null);
  useEffect(() => {
    panel.current?.scrollIntoView({ block: "nearest" });
  }, [item.key]);
  const isAhead = item.kind === "reserved" || item.kind === "planned";
  const note = item.kind === "reserved" ? t("reservationNote") : item.kind === "planned" ? t("forecastNote") : sourceOf(item, t);
  const facts: [string, string][] = [
    [t("owner"), item.owner],
    [t("cards"), cardsOf(item)],
    [t("share"), item.share < 1 ? t("part", { share: percent(item.share) }) : ""],
    [t("attempt"), item.attempt > 0 ? String(item.attempt + 1) : ""],
    [t("position"), item.position === null ? "" : String(item.position)],
    [t("start"), startOf(item, t)],
    [t("end"), endOf(item, t)],
  ];
  return (
    <aside ref={panel} className={styles.detail} aria-label={t("job")}>
      <h2>{nameOf(item, t)}</h2>
      <p>{isAhead || item.job === null ? <Badge tone={isAhead ? "info" : "plain"}>{whatOf(item, t)}</Badge> : <StateBadge state={item.state} />}</p>
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
        {item.job && <Link href={`/jobs/${item.job}`}>{t("openJob")}</Link>}
        <Button isSmall onClick={onClose}>{common("common.close")}</Button>
      </div>
    </aside>
  );
}

function sourceOf(item: Item, t: ReturnType<typeof useTexts<Key>>): string {
  const key = `source.${item.source}`;
  return key in text.en ? t(key as Key) : "";
}
