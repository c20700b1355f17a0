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
import { type Step, walked } from "./walking";
import { cardsOf, endOf, nameOf, startOf, tickLabel, whatOf } from "./words";

interface Props {
  stage: Stage;
  rows: readonly Row[];
  blocks: readonly Block[];
  told: Schemas["TimelineView"];
  chosen: string | null;
  onChoose: (key: string | null) => void;
}

const STEPS: Record<string, Step> = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };
const PAN_PX = 120;
const ZOOM = 1.6;

/** The picture: a canvas that stays while the cards scroll by below it. */
export function Gantt({ stage, rows, blocks, told, chosen, onChoose }: Props) {
  const say = useTexts(text);
  const canvas = useRef<HTMLCanvasElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const [spoken, setSpoken] = useState("");
  const [isDark, language] = [useIsDark(), useLanguage()];

  useEffect(() => {
    const detach = stage.attach(canvas.current!, scroller.current!);
    const unbind = bindGestures(scroller.current!, stage);
    return () => {
      unbind();
      detach();
    };
  }, [stage]);
  useEffect(() => stage.dress(readPalette(), { label: tickLabel, other: say("otherTenant") }), [stage, isDark, language]); // eslint-disable-line
  useEffect(() => {
    stage.ahead_s = told.now_s - Date.now() / 1000;
  }, [stage, told.now_s]);
  useEffect(() => {
    const label = (cause: string) => (cause ? say("maintenance", { cause }) : say("maintenanceBare"));
    const bands = told.windows.map((one) => ({ nodes: new Set(one.nodes), start_s: one.start_s, end_s: one.end_s, label: label(one.cause) }));
    stage.show({ rows, blocks, bands });
  }, [stage, rows, blocks, told.windows, language]); // eslint-disable-line -- `say` follows the language
  useEffect(() => stage.choose(chosen), [stage, chosen]);
  useEffect(() => {
    stage.told.onChoose = (block) => onChoose(block?.item.key ?? null);
    stage.told.onFocus = (block) => setSpoken(block ? sentence(block, say) : "");
  });

  return (
    <>
      <p id="timeline-help" className="visually-hidden">{say("help")}</p>
      <p className="visually-hidden" role="status">{spoken}</p>
      <div
        ref={scroller} className={styles.scroller} tabIndex={0} role="application" aria-label={say("chartLabel")}
        aria-describedby="timeline-help" onKeyDown={(event) => keyed(event, stage, onChoose)}
      >
        <div className={styles.pane}><canvas ref={canvas} aria-hidden="true" /></div>
        <div style={{ height: heightOf(rows) + AXIS_PX }} />
      </div>
      <p className={styles.hint}>{blocks.length === 0 ? say("noBars") : say("hint")}</p>
    </>
  );
}

function keyed(event: KeyboardEvent, stage: Stage, onChoose: (key: string | null) => void): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const step = STEPS[event.key];
  if (step && event.shiftKey && (step === "left" || step === "right")) stage.pan(step === "left" ? -PAN_PX : PAN_PX);
  else if (step) stage.focus(walked(stage.model.blocks, stage.focused, step, stage.now_s()));
  else if (event.key === "+" || event.key === "=") stage.zoom(ZOOM);
  else if (event.key === "-") stage.zoom(1 / ZOOM);
  else if (event.key === "Home") stage.span(width_s(stage.view));
  else if (event.key === "Enter" && stage.focused) onChoose(stage.focused.item.key);
  else if (event.key === "Escape") onChoose(null);
  else return;
  event.preventDefault();
}

function sentence({ item }: Block, say: ReturnType<typeof useTexts<keyof typeof text.en>>): string {
  return say("spoken", { name: nameOf(item, say), what: whatOf(item, say), cards: cardsOf(item), start: startOf(item, say), end: endOf(item, say) });
}
