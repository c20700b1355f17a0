import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, need } from "../../api/client";
import { useCurrentUser } from "../../app/permissions";
import { useTexts } from "../../i18n";
import { Button } from "../../ui/Button";
import { Dialog, DialogButtons } from "../../ui/Dialog";
import { Field } from "../../ui/Field";
import styles from "./Admin.module.css";
import { copyText } from "./copy";
import { EditDialog, errorAt } from "./EditDialog";
import { text } from "./texts";
import { useUsers } from "./Users";

const DAYS = ["1", "30", "365"] as const;
const SCOPES = ["read", "submit", "admin"] as const;
const DAY_S = 86_400;

/** Creates a token and shows it once. The dashboard does not store it. */
export function NewToken({ onClose }: { onClose: () => void }) {
  const t = useTexts(text);
  const me = useCurrentUser();
  const users = useUsers();
  const queries = useQueryClient();
  const [label, setLabel] = useState("");
  const [user, setUser] = useState(me.user);
  const [days, setDays] = useState("");
  const [scopes, setScopes] = useState("");
  const create = useMutation({
    gcTime: 0,
    mutationFn: () => need(api.POST("/api/v1/tokens", {
      body: {
        label, user: user === me.user ? null : user,
        scopes: scopes === "" ? null : SCOPES.slice(0, SCOPES.indexOf(scopes as (typeof SCOPES)[number]) + 1),
        expires_s: days === "" ? null : Date.now() / 1000 + +days * DAY_S,
      },
    })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["tokens"] }),
  });
  if (create.data) return <ShownToken token={create.data.token} onClose={onClose} />;
  return (
    <EditDialog
      title={t("addToken")} action={t("addToken")} isBusy={create.isPending} error={create.error}
      fields={["label", "user", "scopes", "expires_s"]} onSave={() => create.mutate()} onClose={onClose}
    >
      <Field label={t("label")} error={errorAt(create.error, "label")} isWide>
        {(control) => <input {...control} autoFocus value={label} maxLength={200} autoComplete="off" onChange={(event) => setLabel(event.target.value)} />}
      </Field>
      {me.is_admin && (
        <Field label={t("user")} error={errorAt(create.error, "user")}>
          {(control) => (
            <select {...control} value={user} onChange={(event) => setUser(event.target.value)}>
              {(users.data?.items ?? [{ name: me.user }]).map((other) => <option key={other.name}>{other.name}</option>)}
            </select>
          )}
        </Field>
      )}
      <Field label={t("scopes")} error={errorAt(create.error, "scopes")}>
        {(control) => (
          <select {...control} value={scopes} onChange={(event) => setScopes(event.target.value)}>
            <option value="">{t("scopesAll")}</option>
            {SCOPES.map((scope, at) => <option key={scope} value={scope}>{SCOPES.slice(0, at + 1).join(", ")}</option>)}
          </select>
        )}
      </Field>
      <Field label={t("expiresIn")} error={errorAt(create.error, "expires_s")}>
        {(control) => (
          <select {...control} value={days} onChange={(event) => setDays(event.target.value)}>
            <option value="">{t("never")}</option>
            {DAYS.map((day) => <option key={day} value={day}>{t(`days.${day}`)}</option>)}
          </select>
        )}
      </Field>
    </EditDialog>
  );
}

function ShownToken({ token, onClose }: { token: string; onClose: () => void }) {
  const t = useTexts(text);
  const [isCopied, setCopied] = useState(false);
  return (
    <Dialog title={t("newToken")} onClose={onClose}>
      <p>{t("newTokenNote")}</p>
      <div className={styles.token}>
        <code>{token}</code>
        <Button isSmall autoFocus onClick={() => void copyText(token).then(setCopied)}>{t("copy")}</Button>
      </div>
      <p role="status" className={styles.pale}>{isCopied ? t("copied") : ""}</p>
      <DialogButtons><Button kind="primary" onClick={onClose}>{t("done")}</Button></DialogButtons>
    </Dialog>
  );
}
