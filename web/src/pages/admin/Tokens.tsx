import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, need, type Schemas } from "../../api/client";
import { useWho } from "../../app/rights";
import { useTexts } from "../../i18n";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Confirm } from "../../ui/Confirm";
import { DataTable } from "../../ui/DataTable";
import { ErrorBox } from "../../ui/ErrorBox";
import { Panel } from "../../ui/Panel";
import { Time, useNow } from "../../ui/Time";
import { toast, toastError } from "../../ui/Toast";
import styles from "./Admin.module.css";
import { NewToken } from "./NewToken";
import { text } from "./texts";

type Token = Schemas["TokenView"];

export function Tokens() {
  const say = useTexts(text);
  const tokens = useQuery({ queryKey: ["tokens"], queryFn: () => need(api.GET("/api/v1/tokens")) });
  const [isNew, setNew] = useState(false);
  const [revoked, setRevoked] = useState<Token | null>(null);
  const [isValidOnly, setValidOnly] = useState(true);
  const now_s = useNow();
  const rows = (tokens.data?.items ?? [])
    .filter((one) => !isValidOnly || isValid(one, now_s))
    .sort((a, b) => b.created_s - a.created_s);
  return (
    <Panel
      title={say("tokens")}
      tools={
        <>
          <label className={styles.check}>
            <input type="checkbox" checked={isValidOnly} onChange={(event) => setValidOnly(event.target.checked)} /> {say("onlyValid")}
          </label>
          <Button isSmall onClick={() => setNew(true)}>{say("addToken")}</Button>
        </>
      }
    >
      {tokens.error && <ErrorBox error={tokens.error} onRetry={() => void tokens.refetch()} />}
      {tokens.data && rows.length === 0 && <p className={styles.pale}>{say("noTokens")}</p>}
      {rows.length > 0 && (
        <DataTable
          label={say("tokens")} rows={rows} rowKey={(one) => one.id}
          columns={[
            { name: say("label"), isHead: true, cell: (one) => one.label || <span className={styles.pale}>{one.id.slice(-6)}</span> },
            { name: say("user"), cell: (one) => one.user },
            { name: say("scopes"), cell: (one) => one.scopes.join(", ") },
            { name: say("created"), cell: (one) => <Time at_s={one.created_s} /> },
            { name: say("lastUsed"), cell: (one) => (one.last_used_s ? <Time at_s={one.last_used_s} /> : say("notUsed")) },
            { name: say("expires"), cell: (one) => <Ending token={one} now_s={now_s} /> },
            {
              name: say("actions"), isQuiet: true, isNumber: true,
              cell: (one) => isValid(one, now_s) && (
                <Button isSmall kind="danger" aria-label={`${say("revoke")} ${one.label}`} onClick={() => setRevoked(one)}>{say("revoke")}</Button>
              ),
            },
          ]}
        />
      )}
      {isNew && <NewToken onClose={() => setNew(false)} />}
      {revoked && <Revoke token={revoked} onClose={() => setRevoked(null)} />}
    </Panel>
  );
}

function Ending({ token, now_s }: { token: Token; now_s: number }) {
  const say = useTexts(text);
  if (token.revoked_s !== null) return <Badge tone="bad">{say("revoked")}</Badge>;
  if (token.expires_s === null) return <>{say("never")}</>;
  return token.expires_s <= now_s ? <Badge>{say("ended")}</Badge> : <Time at_s={token.expires_s} />;
}

function Revoke({ token, onClose }: { token: Token; onClose: () => void }) {
  const say = useTexts(text);
  const me = useWho();
  const queries = useQueryClient();
  const revoke = useMutation({
    mutationFn: () => need(api.DELETE("/api/v1/tokens/{token}", { params: { path: { token: token.id } } })),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["tokens"] });
      toast(say("revokeDone"));
      onClose();
    },
    onError: toastError,
  });
  return (
    <Confirm title={say("revokeTitle")} action={say("revoke")} isDanger isBusy={revoke.isPending} onYes={() => revoke.mutate()} onNo={onClose}>
      <p>{say("revokeNote", { label: token.label || token.id, user: token.user })}</p>
      {token.id === me.token.id && <p><strong>{say("revokeOwn")}</strong></p>}
    </Confirm>
  );
}

function isValid(token: Token, now_s: number): boolean {
  return token.revoked_s === null && (token.expires_s === null || token.expires_s > now_s);
}
