import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, need } from "../../api/client";
import { useT, useTexts } from "../../i18n";
import { clock } from "../../i18n/format";
import { Button } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { Dialog } from "../../ui/Dialog";
import { StateBadge } from "../../ui/StateBadge";
import styles from "./ActionDialog.module.css";
import { PRIORITY_NAMES, reasonOf, type Row } from "./rows";
import { text } from "./texts";
import { offered, useActions } from "./useActions";

export type Step = "menu" | "cancel" | "hold" | "release";

/** Actions for a job: a menu, and a confirmation before anything that cannot be undone. */
export function ActionDialog({ row, step: first, onClose }: { row: Row; step: Step; onClose: () => void }) {
  const t = useTexts(text);
  const [step, setStep] = useState<Step>(first);
  const actions = useActions(onClose);
  const name = row.name || row.id;
  if (step === "menu")
    return <Menu row={row} onStep={setStep} onClose={onClose} onChange={(change) => actions.mutate({ action: "change", row, change })} />;
  const note =
    step === "cancel" ? t(row.started_s === null ? "cancel.pending" : "cancel.running") : t(`act.${step}Note`);
  return (
    <Confirm
      title={t(`${step}.title`, { name })} isDanger={step === "cancel"} isBusy={actions.isPending} onNo={onClose}
      action={step === "cancel" ? t("cancel.yes") : t(`act.${step}`)} {...(step === "cancel" ? { keep: t("cancel.no") } : {})}
      onYes={() => actions.mutate({ action: step, row })}
    >
      <p>{note}</p>
    </Confirm>
  );
}

interface MenuProps {
  row: Row;
  onStep: (step: Step) => void;
  onChange: (change: { priority?: string; queue?: string }) => void;
  onClose: () => void;
}

function Menu({ row, onStep, onChange, onClose }: MenuProps) {
  const t = useTexts(text);
  const common = useT();
  const { canHold, canRelease } = offered(row);
  const [priority, setPriority] = useState(row.priority);
  const [queue, setQueue] = useState(row.queue);
  const changed = { ...(priority !== row.priority && { priority }), ...(queue !== row.queue && { queue }) };
  return (
    <Dialog title={row.name || row.id} onClose={onClose}>
      <p className={styles.facts}><StateBadge state={row.state} hangs={row.hang_warnings} /> {reasonOf(row)}</p>
      {row.state === "pending" && <Range id={row.id} />}
      <form
        className={styles.form}
        onSubmit={(event) => {
          event.preventDefault();
          onChange(changed);
        }}
      >
        <label>
          {t("act.priority")}
          <select value={priority} onChange={(event) => setPriority(event.target.value)} autoFocus>
            {PRIORITY_NAMES.map((name) => <option key={name} value={name}>{t(`priority.${name}`)}</option>)}
            {!PRIORITY_NAMES.some((name) => name === row.priority) && <option value={row.priority}>{row.priority}</option>}
          </select>
        </label>
        <label>
          {t("act.queue")}
          <input value={queue} maxLength={63} onChange={(event) => setQueue(event.target.value)} />
        </label>
        <Button type="submit" kind="primary" disabled={Object.keys(changed).length === 0}>{t("act.save")}</Button>
      </form>
      <div className={styles.more}>
        {canHold && <Button onClick={() => onStep("hold")}>{t("act.hold")}</Button>}
        {canRelease && <Button onClick={() => onStep("release")}>{t("act.release")}</Button>}
        <Button kind="danger" onClick={() => onStep("cancel")}>{t("act.cancel")}</Button>
        <Button kind="quiet" onClick={onClose}>{common("common.close")}</Button>
      </div>
    </Dialog>
  );
}

/** Start forecast of the job as a range. */
function Range({ id }: { id: string }) {
  const t = useTexts(text);
  const { data } = useQuery({
    queryKey: ["job", id, "when"],
    queryFn: () => need(api.GET("/api/v1/jobs/{job}/when", { params: { path: { job: id } } })),
    retry: false,
  });
  const isKnown = data?.start_s != null && data.high_s != null;
  return (
    <p className={styles.facts}>
      {isKnown ? t("act.when", { from: clock(data.start_s!), to: clock(data.high_s!) }) : t("act.unknown")}
    </p>
  );
}
