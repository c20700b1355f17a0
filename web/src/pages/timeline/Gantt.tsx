import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import { useIsDark } from "../../app/theme";
import type { Schemas } from "../../api/client";
import { useLanguage, useTexts } from "../../i18n";
import { AXIS_PX } from "./draw";
import styles from "./Gantt.module.css";
import { bindGestures } from "./gestures";
import { type Block, heightOf, type Row } from "./layout";
import { readPalette } from "./palette";
import { width_s } from "./scale";
import type { Stage } from "./stage";
import { text } from "./texts";
import { type Step, nextBlock } from "./keyboard";
import { cardsOf, endOf, nameOf, startOf, tickLabel, whatOf } from "./words";

interface Props {
  stage: Stage;
  rows: readonly Row[];
  blocks: readonly Block[];
  timeline: Schemas["TimelineView"];
  chosen: string | null;
  onChoose: (key: string | null) => void;
}

const STEPS: Record<string, Step> = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };
const PAN_PX = 120;
const ZOOM = 1.6;

/** The chart: a canvas that stays in place while the rows scroll. */
export function Gantt({ stage, rows, blocks, timeline, chosen, onChoose }: Props) {
  const t = useTexts(text);
  const canvas = useRef<HTMLCanvasElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const [announced, setAnnounced] = useState("");
  const [isDark, language] = [useIsDark(), useLanguage()];

  useEffect(() => {
    const detach = stage.attach(canvas.current!, scroller.current!);
    const unbind = bindGestures(scroller.current!, stage);
    return () => {
      unbind();
      detach();
    };
  }, [stage]);
  useEffect(() => stage.setStyle(readPalette(), { label: tickLabel, other: t("otherTenant") }), [stage, isDark, language]); // eslint-disable-line
  useEffect(() => {
    stage.ahead_s = timeline.now_s - Date.now() / 1000;
  }, [stage, timeline.now_s]);
  useEffect(() => {
    const label = (cause: string) => (cause ? t("maintenance", { cause }) : t("maintenanceBare"));
    const bands = timeline.windows.map((window) => ({ nodes: new Set(window.nodes), start_s: window.start_s, end_s: window.end_s, label: label(window.cause) }));
    stage.show({ rows, blocks, bands });
  }, [stage, rows, blocks, timeline.windows, language]); // eslint-disable-line -- `t` changes with the language
  useEffect(() => stage.choose(chosen), [stage, chosen]);
  useEffect(() => {
    stage.handlers.onChoose = (block) => onChoose(block?.item.key ?? null);
    stage.handlers.onFocus = (block) => setAnnounced(block ? sentence(block, t) : "");
  });

  return (
    <>
      <p id="timeline-help" className="visually-hidden">{t("help")}</p>
      <p className="visually-hidden" role="status">{announced}</p>
      <div
        ref={scroller} className={styles.scroller} tabIndex={0} role="application" aria-label={t("chartLabel")}
        aria-describedby="timeline-help" onKeyDown={(event) => onKey(event, stage, onChoose)}
      >
        <div className={styles.pane}><canvas ref={canvas} aria-hidden="true" /></div>
        <div style={{ height: heightOf(rows) + AXIS_PX }} />
      </div>
      <p className={styles.hint}>{blocks.length === 0 ? t("noBars") : t("hint")}</p>
    </>
  );
}

function onKey(event: KeyboardEvent, stage: Stage, onChoose: (key: string | null) => void): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const step = STEPS[event.key];
  if (step && event.shiftKey && (step === "left" || step === "right")) stage.pan(step === "left" ? -PAN_PX : PAN_PX);
  else if (step) stage.focus(nextBlock(stage.model.blocks, stage.focused, step, stage.now_s()));
  else if (event.key === "+" || event.key === "=") stage.zoom(ZOOM);
  else if (event.key === "-") stage.zoom(1 / ZOOM);
  else if (event.key === "Home") stage.span(width_s(stage.view));
  else if (event.key === "Enter" && stage.focused) onChoose(stage.focused.item.key);
  else if (event.key === "Escape") onChoose(null);
  else return;
  event.preventDefault();
}

function sentence({ item }: Block, t: ReturnType<typeof useTexts<keyof typeof text.en>>): string {
  return t("spoken", { name: nameOf(item, t), what: whatOf(item, t), cards: cardsOf(item), start: startOf(item, t), end: endOf(item, t) });
}
