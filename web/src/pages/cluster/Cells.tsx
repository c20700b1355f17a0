import { memo, useState } from "react";
import { useTexts } from "../../i18n";
import { percent } from "../../i18n/format";
import styles from "./Cells.module.css";
import { sampleOf } from "./sample";
import type { Card, Node } from "./sums";
import { text } from "./texts";
import { Tile } from "./Tile";

/** Many cards as squares, darker at higher utilisation. A click or the keyboard opens one. */
export function Cells({ node }: { node: Node }) {
  const { cards } = node;
  const t = useTexts(text);
  const [opened, setOpened] = useState<string | null>(null);
  const shown = cards.find((card) => card.id === opened);
  return (
    <div>
      <div
        className={styles.cells} role="group"
        aria-label={t("cards", { node: node.id, first: cards[0]!.index, last: cards.at(-1)!.index })}
      >
        {cards.map((card) => (
          <Cell
            key={card.id} card={card} isOpen={card.id === opened} onOpen={setOpened}
            label={t("card", { index: card.index, node: node.id, state: t(`state.${card.state}`) })}
          />
        ))}
      </div>
      {shown && <ul className={styles.opened} aria-live="polite"><Tile card={shown} node={node.id} /></ul>}
    </div>
  );
}

interface CellProps {
  card: Card;
  label: string;
  isOpen: boolean;
  onOpen: (id: string | null) => void;
}

/** Renders again only after a visible change, because samples differ slightly every second. */
const Cell = memo(
  function Cell({ card, label, isOpen, onOpen }: CellProps) {
    const ratio = sampleOf(card)?.utilisation_ratio;
    return (
      <button
        type="button" className={styles.cell} data-state={card.state} data-level={level(card)} aria-expanded={isOpen}
        aria-label={`${label}, ${percent(ratio)}`} title={`${label}, ${percent(ratio)}`}
        onClick={() => onOpen(isOpen ? null : card.id)}
      />
    );
  },
  (a, b) => a.label === b.label && a.isOpen === b.isOpen && level(a.card) === level(b.card),
);

/** Utilisation in five steps. */
function level(card: Card): number {
  return Math.round((sampleOf(card)?.utilisation_ratio ?? 0) * 4);
}
