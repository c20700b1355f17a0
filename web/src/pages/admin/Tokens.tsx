import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, need, type Schemas } from "../../api/client";
import { useCurrentUser } from "../../app/permissions";
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
  const t = useTexts(text);
  const tokens = useQuery({ queryKey: ["tokens"], queryFn: () => need(api.GET("/api/v1/tokens")) });
  const [isNew, setNew] = useState(false);
  const [revoked, setRevoked] = useState<Token | null>(null);
  const [isValidOnly, setValidOnly] = useState(true);
  const now_s = useNow();
  const rows = (tokens.data?.items ?? [])
    .filter((row) => !isValidOnly || isValid(row, now_s))
    .sort((a, b) => b.created_s - a.created_s);
  return (
    <Panel
      title={t("tokens")}
      tools={
        <>
          <label className={styles.check}>
            <input type="checkbox" checked={isValidOnly} onChange={(event) => setValidOnly(event.target.checked)} /> {t("onlyValid")}
          </label>
          <Button isSmall onClick={() => setNew(true)}>{t("addToken")}</Button>
        </>
      }
    >
      {tokens.error && <ErrorBox error={tokens.error} onRetry={() => void tokens.refetch()} />}
      {tokens.data && rows.length === 0 && <p className={styles.pale}>{t("noTokens")}</p>}
      {rows.length > 0 && (
        <DataTable
          label={t("tokens")} rows={rows} rowKey={(row) => row.id}
          columns={[
            { name: t("label"), isHead: true, cell: (row) => row.label || <span className={styles.pale}>{row.id.slice(-6)}</span> },
            { name: t("user"), cell: (row) => row.user },
            { name: t("scopes"), cell: (row) => row.scopes.join(", ") },
            { name: t("created"), cell: (row) => <Time at_s={row.created_s} /> },
            { name: t("lastUsed"), cell: (row) => (row.last_used_s ? <Time at_s={row.last_used_s} /> : t("notUsed")) },
            { name: t("expires"), cell: (row) => <Expiry token={row} now_s={now_s} /> },
            {
              name: t("actions"), isQuiet: true, isNumber: true,
              cell: (row) => isValid(row, now_s) && (
                <Button isSmall kind="danger" aria-label={`${t("revoke")} ${row.label}`} onClick={() => setRevoked(row)}>{t("revoke")}</Button>
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

function Expiry({ token, now_s }: { token: Token; now_s: number }) {
  const t = useTexts(text);
  if (token.revoked_s !== null) return <Badge tone="bad">{t("revoked")}</Badge>;
  if (token.expires_s === null) return <>{t("never")}</>;
  return token.expires_s <= now_s ? <Badge>{t("ended")}</Badge> : <Time at_s={token.expires_s} />;
}

function Revoke({ token, onClose }: { token: Token; onClose: () => void }) {
  const t = useTexts(text);
  const me = useCurrentUser();
  const queries = useQueryClient();
  const revoke = useMutation({
    mutationFn: () => need(api.DELETE("/api/v1/tokens/{token}", { params: { path: { token: token.id } } })),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["tokens"] });
      toast(t("revokeDone"));
      onClose();
    },
    onError: toastError,
  });
  return (
    <Confirm title={t("revokeTitle")} action={t("revoke")} isDanger isBusy={revoke.isPending} onYes={() => revoke.mutate()} onNo={onClose}>
      <p>{t("revokeNote", { label: token.label || token.id, user: token.user })}</p>
      {token.id === me.token.id && <p><strong>{t("revokeOwn")}</strong></p>}
    </Confirm>
  );
}

function isValid(token: Token, now_s: number): boolean {
  return token.revoked_s === null && (token.expires_s === null || token.expires_s > now_s);
}
