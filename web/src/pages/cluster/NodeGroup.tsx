import type { ReactNode } from "react";
import { useTexts } from "../../i18n";
import { count, gib } from "../../i18n/format";
import { Badge } from "../../ui/Badge";
import { LazyBlock } from "../../ui/LazyBlock";
import { Cells } from "./Cells";
import styles from "./NodeGroup.module.css";
import { blocks, modelOf, type Node } from "./sums";
import { text } from "./texts";
import { Tile } from "./Tile";
import type { View } from "./index";

const TILES_PER_BLOCK = 48;
const SMALL_NODE = 16;
const ROW_CARDS = 8;
const ROW_PX = 156;

interface Props {
  node: Node;
  view: View;
  isInRack: boolean;
  /** Draw only the cards near the viewport. */
  isLazy: boolean;
}

/** One node and its cards. */
export function NodeGroup({ node, view, isInRack, isLazy }: Props) {
  const t = useTexts(text);
  return (
    <section className={styles.node} aria-label={node.id} data-large={node.cards.length > SMALL_NODE || undefined}>
      <NodeHead node={node} isInRack={isInRack} isShort={view === "cells" && node.cards.length <= SMALL_NODE} />
      {view === "cells"
        ? node.cards.length > 0 && <Cells node={node} />
        : blocks(node.cards, TILES_PER_BLOCK).map((cards) => (
            <Block key={cards[0]!.id} isLazy={isLazy} cards={cards.length}>
              <ul
                className={styles.tiles}
                aria-label={t("cards", { node: node.id, first: cards[0]!.index, last: cards.at(-1)!.index })}
              >
                {cards.map((card) => <Tile key={card.id} card={card} node={node.id} />)}
              </ul>
            </Block>
          ))}
    </section>
  );
}

function Block({ isLazy, cards, children }: { isLazy: boolean; cards: number; children: ReactNode }) {
  if (!isLazy) return children;
  return <LazyBlock height_px={Math.ceil(cards / ROW_CARDS) * ROW_PX}>{() => children}</LazyBlock>;
}

function NodeHead({ node, isInRack, isShort }: { node: Node; isInRack: boolean; isShort: boolean }) {
  const Heading = isInRack ? "h3" : "h2";
  const t = useTexts(text);
  const free = node.cards.filter((card) => card.state === "free").length;
  const model = modelOf(node.cards);
  const cpus = (milli: number) => count(Math.floor(milli / 1000));
  return (
    <header className={styles.head}>
      <Heading>{node.id}</Heading>
      {model && !isShort && <span>{model.model} · {gib(model.memory_bytes)} GiB</span>}
      <span>{t("node", { free: count(free), all: count(node.cards.length) })}</span>
      {!isShort && <span>{t("cpu", { free: cpus(node.cpu_free_milli), all: cpus(node.cpu_milli) })}</span>}
      {!isShort && <span>{t("ram", { free: gib(node.memory_free_bytes), all: gib(node.memory_bytes) })}</span>}
      {node.drained && <Badge tone="warn">{t("drained")}</Badge>}
    </header>
  );
}
