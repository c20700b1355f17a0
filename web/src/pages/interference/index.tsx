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
  const t = useTexts(text);
  const interference = useQuery({ queryKey: ["interference"], queryFn: () => need(api.GET("/api/v1/interference")), refetchInterval: 30_000 });
  const [chosen, setChosen] = useState("");
  const cards = interference.data?.cards ?? [];
  const card = cards.find((option) => option.gpu === chosen) ?? cards[0];
  return (
    <>
      <PageHead title={t("title")} note={interference.data?.sharing ? t("sharing", { sharing: interference.data.sharing }) : t("lead")}>
        {cards.length > 1 && card && (
          <Segments label={t("card")} value={card.gpu} options={cards.map((option) => [option.gpu, option.gpu] as const)} onChange={setChosen} />
        )}
      </PageHead>
      {interference.error && !interference.data && <ErrorBox error={interference.error} onRetry={() => void interference.refetch()} />}
      {interference.isPending && <Loading />}
      {interference.data && !card && <Empty text={t(interference.data.sharing === null ? "unused" : "nothing")} detail={t("nothingHow")} />}
      {card && <Tables card={card} isTruncated={interference.data!.truncated} />}
    </>
  );
}

function Tables({ card, isTruncated }: { card: CardTables; isTruncated: boolean }) {
  const t = useTexts(text);
  return (
    <div className={styles.page}>
      <p className={styles.note}>
        <Badge tone="accent">{card.gpu}</Badge>{" "}
        {card.measured_s === null ? t("learnedOnly") : t("measured", { at: instant(card.measured_s) })}
        {isTruncated && ` · ${t("truncated")}`}
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
