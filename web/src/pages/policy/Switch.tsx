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
import { PreemptionFields } from "./PreemptionFields";
import { PreviewView } from "./PreviewView";
import type { Policy, Request } from "./queries";
import { text } from "./texts";

const PARTS = ["order", "plan", "place"] as const;

/** Form to switch policies, with a preview of the effect. */
export function Switch({ policy }: { policy: Policy }) {
  const t = useTexts(text);
  const [request, setRequest] = useState<Request>({ mode: policy.mode, note: "" });
  const [isConfirming, setConfirming] = useState(false);
  const preview = useMutation({ mutationFn: (body: Request) => need(api.POST("/api/v1/policy/preview", { body })) });
  const apply = useApply((revision) => {
    setConfirming(false);
    preview.reset();
    setRequest({ mode: request.mode, note: "" });
    toast(t("applied", { revision }));
  });
  const change = (next: Partial<Request>) => {
    setRequest({ ...request, ...next });
    if (!("note" in next)) preview.reset(); // the preview no longer matches
  };
  const showPreview = (event: FormEvent) => {
    event.preventDefault();
    preview.mutate(withoutEmpty(request));
  };
  const refused = preview.error instanceof ApiError ? preview.error : null;
  const isAtField = PARTS.some((part) => part === refused?.field);
  return (
    <Panel title={t("switch")} note={t("switchNote")}>
      <form className={styles.switch} onSubmit={showPreview}>
        <Fields>
          <Field label={t("mode")}>
            {(control) => (
              <select {...control} value={request.mode ?? ""} onChange={(event) => change({ mode: event.target.value })}>
                {policy.modes.map((mode) => <option key={mode}>{mode}</option>)}
              </select>
            )}
          </Field>
          {PARTS.map((part) => (
            <Field key={part} label={t(part)} error={refused?.field === part ? `${refused.message} – ${refused.cure}` : ""}>
              {(control) => (
                <input
                  {...control} value={request[part] ?? ""} placeholder={t("ofMode")} autoComplete="off" spellCheck={false}
                  onChange={(event) => change({ [part]: event.target.value })}
                />
              )}
            </Field>
          ))}
          <PreemptionFields request={request} policy={policy} onChange={change} />
          <Field label={t("note")} isWide>
            {(control) => <input {...control} value={request.note ?? ""} maxLength={200} onChange={(event) => change({ note: event.target.value })} />}
          </Field>
        </Fields>
        <Button type="submit" disabled={preview.isPending}>{t("preview")}</Button>
      </form>
      {preview.error && !isAtField && <ErrorBox error={preview.error} />}
      {preview.data && (
        <div className={styles.preview} aria-live="polite">
          <PreviewView preview={preview.data} />
          <Button kind="primary" onClick={() => setConfirming(true)}>{t("apply")}</Button>
        </div>
      )}
      {isConfirming && (
        <Confirm
          title={t("applyTitle")} action={t("apply")} isBusy={apply.isPending}
          onYes={() => apply.mutate(withoutEmpty(request))} onNo={() => setConfirming(false)}
        >
          <ul className={styles.settings}>
            {Object.entries(withoutEmpty(request)).map(([name, value]) => <li key={name}><code>{name}: {typeof value === "object" ? JSON.stringify(value) : String(value)}</code></li>)}
          </ul>
          <p>{t("switchNote")}</p>
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

/** The request without empty fields. */
function withoutEmpty(request: Request): Request {
  return Object.fromEntries(Object.entries(request).filter(([, value]) => value !== "" && value !== null)) as Request;
}
