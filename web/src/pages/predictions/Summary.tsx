import { useTexts } from "../../i18n";
import { count, percent } from "../../i18n/format";
import styles from "./Predictions.module.css";
import { type Series, summarize } from "./sums";
import { text } from "./texts";

const MIN_BIAS = 0.05;

/** All predictions in four numbers. */
export function Summary({ series }: { series: Series }) {
  const t = useTexts(text);
  const all = summarize(series);
  return (
    <dl className={styles.numbers}>
      <div><dt>{t("runs")}</dt><dd>{count(all.runs)}</dd></div>
      <div><dt>{t("median")}</dt><dd>{all.median_ratio === null ? "–" : `± ${percent(all.median_ratio)}`}</dd></div>
      <div><dt>{t("within")}</dt><dd>{percent(all.within_p90)}</dd></div>
      <div><dt>{t("bias")}</dt><dd className={styles.words}><Bias value={all.bias} /></dd></div>
    </dl>
  );
}

export function Bias({ value }: { value: number | null }) {
  const t = useTexts(text);
  if (value === null) return <>–</>;
  if (Math.abs(value) < MIN_BIAS) return <>{t("bias.none")}</>;
  const factor = Math.exp(value);
  return <>{t(value > 0 ? "bias.longer" : "bias.shorter", { factor: factor < 0.1 ? factor.toPrecision(1) : factor.toFixed(2) })}</>;
}
