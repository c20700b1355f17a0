import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, need } from "../../api/client";
import { useTexts } from "../../i18n";
import { instant } from "../../i18n/format";
import { Badge } from "../../ui/Badge";
import { Empty } from "../../ui/Empty";
import { ErrorBox } from "../../ui/ErrorBox";
import { Loading } from "../../ui/Loading";
import { PageHead } from "../../ui/PageHead";
import { Segments } from "../../ui/Segments";
import { Errors } from "./Errors";
import { HeatMap } from "./HeatMap";
import styles from "./Interference.module.css";
import type { CardTables } from "./shades";
import { SoloCurves, SoloTable } from "./Solo";
import { text } from "./texts";

export default function InterferencePage() {
  const say = useTexts(text);
  const found = useQuery({ queryKey: ["interference"], queryFn: () => need(api.GET("/api/v1/interference")), refetchInterval: 30_000 });
  const [chosen, setChosen] = useState("");
  const cards = found.data?.cards ?? [];
  const card = cards.find((one) => one.gpu === chosen) ?? cards[0];
  return (
    <>
      <PageHead title={say("title")} note={found.data?.sharing ? say("sharing", { sharing: found.data.sharing }) : say("lead")}>
        {cards.length > 1 && card && (
          <Segments label={say("card")} value={card.gpu} options={cards.map((one) => [one.gpu, one.gpu] as const)} onChange={setChosen} />
        )}
      </PageHead>
      {found.error && !found.data && <ErrorBox error={found.error} onRetry={() => void found.refetch()} />}
      {found.isPending && <Loading />}
      {found.data && !card && <Empty text={say(found.data.sharing === null ? "unused" : "nothing")} detail={say("nothingHow")} />}
      {card && <Tables card={card} isTruncated={found.data!.truncated} />}
    </>
  );
}

function Tables({ card, isTruncated }: { card: CardTables; isTruncated: boolean }) {
  const say = useTexts(text);
  return (
    <div className={styles.page}>
      <p className={styles.note}>
        <Badge tone="accent">{card.gpu}</Badge>{" "}
        {card.measured_s === null ? say("learnedOnly") : say("measured", { at: instant(card.measured_s) })}
        {isTruncated && ` · ${say("truncated")}`}
      </p>
      <HeatMap card={card} />
      <div className={styles.two}>
        <SoloCurves card={card} />
        <Errors errors={card.errors} />
      </div>
      <SoloTable card={card} />
    </div>
  );
}
