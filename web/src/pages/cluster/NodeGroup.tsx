import type { ReactNode } from "react";
import { useTexts } from "../../i18n";
import { count, gib } from "../../i18n/format";
import { Badge } from "../../ui/Badge";
import { LazyBlock } from "../../ui/LazyBlock";
import { Cells } from "./Cells";
import styles from "./NodeGroup.module.css";
import { blocks, kindOf, type Node } from "./sums";
import { text } from "./texts";
import { Tile } from "./Tile";
import type { View } from "./index";

const TILES_A_BLOCK = 48;
const SMALL_NODE = 16;
const ROW_CARDS = 8;
const ROW_PX = 156;

interface Props {
  node: Node;
  view: View;
  isInRack: boolean;
  /** Of many cards, only those near the window are drawn. */
  isLazy: boolean;
}

/** One machine and its cards. */
export function NodeGroup({ node, view, isInRack, isLazy }: Props) {
  const say = useTexts(text);
  return (
    <section className={styles.node} aria-label={node.id} data-large={node.cards.length > SMALL_NODE || undefined}>
      <NodeHead node={node} isInRack={isInRack} isShort={view === "cells" && node.cards.length <= SMALL_NODE} />
      {view === "cells"
        ? node.cards.length > 0 && <Cells node={node} />
        : blocks(node.cards, TILES_A_BLOCK).map((cards) => (
            <Block key={cards[0]!.id} isLazy={isLazy} cards={cards.length}>
              <ul
                className={styles.tiles}
                aria-label={say("cards", { node: node.id, first: cards[0]!.index, last: cards.at(-1)!.index })}
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
  const say = useTexts(text);
  const free = node.cards.filter((card) => card.state === "free").length;
  const kind = kindOf(node.cards);
  const cpus = (milli: number) => count(Math.floor(milli / 1000));
  return (
    <header className={styles.head}>
      <Heading>{node.id}</Heading>
      {kind && !isShort && <span>{kind.model} · {gib(kind.memory_bytes)} GiB</span>}
      <span>{say("node", { free: count(free), all: count(node.cards.length) })}</span>
      {!isShort && <span>{say("cpu", { free: cpus(node.cpu_free_milli), all: cpus(node.cpu_milli) })}</span>}
      {!isShort && <span>{say("ram", { free: gib(node.memory_free_bytes), all: gib(node.memory_bytes) })}</span>}
      {node.drained && <Badge tone="warn">{say("drained")}</Badge>}
    </header>
  );
}
