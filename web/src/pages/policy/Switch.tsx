import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, need } from "../../api/client";
import { ApiError } from "../../api/errors";
import { useTexts } from "../../i18n";
import { Button } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { ErrorBox } from "../../ui/ErrorBox";
import { Field, Fields } from "../../ui/Field";
import { Panel } from "../../ui/Panel";
import { toast, toastError } from "../../ui/Toast";
import styles from "./Policy.module.css";
import { PreviewView } from "./PreviewView";
import type { Policy, Request } from "./queries";
import { text } from "./texts";

const PARTS = ["order", "plan", "place"] as const;

/** Other policies: first what they would change, then the switch. */
export function Switch({ policy }: { policy: Policy }) {
  const say = useTexts(text);
  const [wanted, setWanted] = useState<Request>({ mode: policy.mode, note: "" });
  const [isAsking, setAsking] = useState(false);
  const preview = useMutation({ mutationFn: (body: Request) => need(api.POST("/api/v1/policy/preview", { body })) });
  const apply = useApply((revision) => {
    setAsking(false);
    preview.reset();
    setWanted({ mode: wanted.mode, note: "" });
    toast(say("applied", { revision }));
  });
  const change = (next: Partial<Request>) => {
    setWanted({ ...wanted, ...next });
    if (!("note" in next)) preview.reset(); // it was about something else
  };
  const look = (event: FormEvent) => {
    event.preventDefault();
    preview.mutate(said(wanted));
  };
  const refused = preview.error instanceof ApiError ? preview.error : null;
  const isAtField = PARTS.some((part) => part === refused?.field);
  return (
    <Panel title={say("switch")} note={say("switchNote")}>
      <form className={styles.switch} onSubmit={look}>
        <Fields>
          <Field label={say("mode")}>
            {(given) => (
              <select {...given} value={wanted.mode ?? ""} onChange={(event) => change({ mode: event.target.value })}>
                {policy.modes.map((mode) => <option key={mode}>{mode}</option>)}
              </select>
            )}
          </Field>
          {PARTS.map((part) => (
            <Field key={part} label={say(part)} error={refused?.field === part ? `${refused.message} – ${refused.cure}` : ""}>
              {(given) => (
                <input
                  {...given} value={wanted[part] ?? ""} placeholder={say("ofMode")} autoComplete="off" spellCheck={false}
                  onChange={(event) => change({ [part]: event.target.value })}
                />
              )}
            </Field>
          ))}
          <Field label={say("note")} isWide>
            {(given) => <input {...given} value={wanted.note ?? ""} maxLength={200} onChange={(event) => change({ note: event.target.value })} />}
          </Field>
        </Fields>
        <Button type="submit" disabled={preview.isPending}>{say("preview")}</Button>
      </form>
      {preview.error && !isAtField && <ErrorBox error={preview.error} />}
      {preview.data && (
        <div className={styles.preview} aria-live="polite">
          <PreviewView preview={preview.data} />
          <Button kind="primary" onClick={() => setAsking(true)}>{say("apply")}</Button>
        </div>
      )}
      {isAsking && (
        <Confirm
          title={say("applyTitle")} action={say("apply")} isBusy={apply.isPending}
          onYes={() => apply.mutate(said(wanted))} onNo={() => setAsking(false)}
        >
          <ul className={styles.settings}>
            {Object.entries(said(wanted)).map(([name, value]) => <li key={name}><code>{name}: {String(value)}</code></li>)}
          </ul>
          <p>{say("switchNote")}</p>
        </Confirm>
      )}
    </Panel>
  );
}

function useApply(done: (revision: number) => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: Request) => need(api.PUT("/api/v1/policy", { body })),
    onSuccess: (policy) => {
      for (const topic of ["policy", "goals", "cards", "queue", "cluster", "timeline"])
        void queries.invalidateQueries({ queryKey: [topic] });
      done(policy.revision);
    },
    onError: toastError,
  });
}

/** Without what was left empty. */
function said(wanted: Request): Request {
  return Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== "" && value !== null)) as Request;
}
