import { useDeferredValue, useState } from "react";
import { useCluster, useNodes } from "../../api/queries";
import { useT, useTexts } from "../../i18n";
import { Badge } from "../../ui/Badge";
import { Empty } from "../../ui/Empty";
import { ErrorBox } from "../../ui/ErrorBox";
import { Loading } from "../../ui/Loading";
import { PageHead } from "../../ui/PageHead";
import { Segments } from "../../ui/Segments";
import styles from "./Cluster.module.css";
import { Efficiency } from "./Efficiency";
import { NodeGroup } from "./NodeGroup";
import { Summary } from "./Summary";
import { byRack } from "./sums";
import { text } from "./texts";

export type View = "tiles" | "cells";
const MANY_CARDS = 200;
const LAZY_CARDS = 96;

export default function ClusterPage() {
  const t = useTexts(text);
  const common = useT();
  const cluster = useCluster();
  const nodes = useNodes();
  const drawn = useDeferredValue(nodes.data); // rendering a thousand tiles can be interrupted, so that input stays responsive
  const [chosen, setChosen] = useState<View | null>(null);
  if (nodes.error && !nodes.data) return <ErrorBox error={nodes.error} onRetry={() => void nodes.refetch()} />;
  if (!drawn || !cluster.data) return <Loading />;
  const view = chosen ?? (cluster.data.gpus > MANY_CARDS ? "cells" : "tiles");
  return (
    <>
      <PageHead
        title={t("title")}
        note={
          <span className={styles.notes}>
            <Badge tone="accent">{t("mode", { mode: cluster.data.mode })}</Badge>
            {cluster.data.simulated && <Badge tone="warn">{common("common.simulated")}</Badge>}
          </span>
        }
      >
        <Segments
          label={t("view")} value={view} onChange={setChosen}
          options={[["tiles", t("tiles")], ["cells", t("cells")]]}
        />
      </PageHead>
      <Summary cluster={cluster.data} nodes={drawn.items} />
      <Efficiency />
      {cluster.data.gpus === 0 && <Empty text={t("noCards")} />}
      {byRack(drawn.items).map((rack) => (
        <section key={rack.name} className={styles.rack} data-view={view}>
          {rack.name && <h2>{t("rack", { rack: rack.name })}</h2>}
          {rack.nodes.map((node) => <NodeGroup key={node.id} node={node} view={view} isInRack={rack.name !== ""} isLazy={cluster.data.gpus > LAZY_CARDS} />)}
        </section>
      ))}
    </>
  );
}
