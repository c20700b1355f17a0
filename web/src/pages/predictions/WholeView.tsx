import { useTexts } from "../../i18n";
import { count, percent } from "../../i18n/format";
import styles from "./Predictions.module.css";
import { type Series, whole } from "./sums";
import { text } from "./texts";

const NOTICED = 0.05;

/** All of it in four numbers. */
export function WholeView({ series }: { series: Series }) {
  const say = useTexts(text);
  const all = whole(series);
  return (
    <dl className={styles.numbers}>
      <div><dt>{say("runs")}</dt><dd>{count(all.runs)}</dd></div>
      <div><dt>{say("median")}</dt><dd>{all.median_ratio === null ? "–" : `± ${percent(all.median_ratio)}`}</dd></div>
      <div><dt>{say("within")}</dt><dd>{percent(all.within_p90)}</dd></div>
      <div><dt>{say("bias")}</dt><dd className={styles.words}><Bias of={all.bias} /></dd></div>
    </dl>
  );
}

export function Bias({ of }: { of: number | null }) {
  const say = useTexts(text);
  if (of === null) return <>–</>;
  if (Math.abs(of) < NOTICED) return <>{say("bias.none")}</>;
  const factor = Math.exp(of);
  return <>{say(of > 0 ? "bias.longer" : "bias.shorter", { factor: factor < 0.1 ? factor.toPrecision(1) : factor.toFixed(2) })}</>;
}
