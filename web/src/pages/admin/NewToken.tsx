import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, need } from "../../api/client";
import { useWho } from "../../app/rights";
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

/** Made, then shown once: it is kept nowhere in the page. */
export function NewToken({ onClose }: { onClose: () => void }) {
  const say = useTexts(text);
  const me = useWho();
  const users = useUsers();
  const queries = useQueryClient();
  const [label, setLabel] = useState("");
  const [user, setUser] = useState(me.user);
  const [days, setDays] = useState("");
  const [scopes, setScopes] = useState("");
  const make = useMutation({
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
  if (make.data) return <Shown token={make.data.token} onClose={onClose} />;
  return (
    <EditDialog
      title={say("addToken")} action={say("addToken")} isBusy={make.isPending} error={make.error}
      fields={["label", "user", "scopes", "expires_s"]} onSave={() => make.mutate()} onClose={onClose}
    >
      <Field label={say("label")} error={errorAt(make.error, "label")} isWide>
        {(given) => <input {...given} autoFocus value={label} maxLength={200} autoComplete="off" onChange={(event) => setLabel(event.target.value)} />}
      </Field>
      {me.is_admin && (
        <Field label={say("user")} error={errorAt(make.error, "user")}>
          {(given) => (
            <select {...given} value={user} onChange={(event) => setUser(event.target.value)}>
              {(users.data?.items ?? [{ name: me.user }]).map((one) => <option key={one.name}>{one.name}</option>)}
            </select>
          )}
        </Field>
      )}
      <Field label={say("scopes")} error={errorAt(make.error, "scopes")}>
        {(given) => (
          <select {...given} value={scopes} onChange={(event) => setScopes(event.target.value)}>
            <option value="">{say("scopesAll")}</option>
            {SCOPES.map((one, at) => <option key={one} value={one}>{SCOPES.slice(0, at + 1).join(", ")}</option>)}
          </select>
        )}
      </Field>
      <Field label={say("expiresIn")} error={errorAt(make.error, "expires_s")}>
        {(given) => (
          <select {...given} value={days} onChange={(event) => setDays(event.target.value)}>
            <option value="">{say("never")}</option>
            {DAYS.map((one) => <option key={one} value={one}>{say(`days.${one}`)}</option>)}
          </select>
        )}
      </Field>
    </EditDialog>
  );
}

function Shown({ token, onClose }: { token: string; onClose: () => void }) {
  const say = useTexts(text);
  const [isCopied, setCopied] = useState(false);
  return (
    <Dialog title={say("newToken")} onClose={onClose}>
      <p>{say("newTokenNote")}</p>
      <div className={styles.token}>
        <code>{token}</code>
        <Button isSmall autoFocus onClick={() => void copyText(token).then(setCopied)}>{say("copy")}</Button>
      </div>
      <p role="status" className={styles.pale}>{isCopied ? say("copied") : ""}</p>
      <DialogButtons><Button kind="primary" onClick={onClose}>{say("done")}</Button></DialogButtons>
    </Dialog>
  );
}
