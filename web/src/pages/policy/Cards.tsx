import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useId, useState } from "react";
import { api, need } from "../../api/client";
import { ApiError } from "../../api/errors";
import { useCurrentUser } from "../../app/permissions";
import { useT, useTexts } from "../../i18n";
import { Badge, type Tone } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { type Column, DataTable } from "../../ui/DataTable";
import { Dialog, DialogButtons } from "../../ui/Dialog";
import { ErrorBox } from "../../ui/ErrorBox";
import { Field, Fields } from "../../ui/Field";
import { Panel } from "../../ui/Panel";
import { toast } from "../../ui/Toast";
import { CardNow } from "./CardNow";
import styles from "./Policy.module.css";
import { type CardDivision, useCards } from "./queries";
import { text } from "./texts";

const MANY_CARDS = 32;
const MAX_ROWS = 200;
const TONES: Record<CardDivision["divide"]["effect"], Tone> = { live: "good", told: "info", unused: "plain", kept: "warn" };

/** Divide policy of each card; cards with their own setting come first. */
export function Cards() {
  const t = useTexts(text);
  const me = useCurrentUser();
  const cards = useCards();
  const [isOwnOnly, setOwnOnly] = useState<boolean | null>(null);
  const [shown, setShown] = useState<CardDivision | null>(null);
  const [changed, setChanged] = useState<CardDivision | null>(null);
  const all = cards.data?.items ?? [];
  const ownOnly = isOwnOnly ?? all.length > MANY_CARDS;
  const rows = all.filter((card) => card.divide.own || !ownOnly).sort((a, b) => +b.divide.own - +a.divide.own);
  const columns: Column<CardDivision>[] = [
    { name: t("card"), isHead: true, cell: (card) => card.id },
    { name: t("node"), cell: (card) => card.node },
    {
      name: t("dividedBy"),
      cell: (card) => <><code>{card.divide.policy}</code> {card.divide.own && <Badge tone="share">{t("own")}</Badge>}</>,
    },
    {
      name: t("effect"),
      cell: (card) => <span title={card.divide.message}><Badge tone={TONES[card.divide.effect]}>{t(`effect.${card.divide.effect}`)}</Badge></span>,
    },
    {
      name: t("show"), isQuiet: true, isNumber: true,
      cell: (card) => <Button isSmall aria-label={`${t("show")} ${card.id}`} onClick={() => setShown(card)}>{t("show")}</Button>,
    },
  ];
  if (me.is_admin) columns.push({
    name: t("change"), isQuiet: true, isNumber: true,
    cell: (card) => <Button isSmall aria-label={`${t("change")} ${card.id}`} onClick={() => setChanged(card)}>{t("change")}</Button>,
  });
  return (
    <Panel
      title={t("cards")} note={t("cardsNote")}
      tools={
        <label className={styles.check}>
          <input type="checkbox" checked={ownOnly} onChange={(event) => setOwnOnly(event.target.checked)} /> {t("cardsOwn")}
        </label>
      }
    >
      {cards.error && <ErrorBox error={cards.error} onRetry={() => void cards.refetch()} />}
      {cards.data && rows.length === 0 && <p className={styles.since}>{t("allAsMode")}</p>}
      {rows.length > 0 && <DataTable label={t("cards")} rows={rows.slice(0, MAX_ROWS)} columns={columns} rowKey={(card) => card.id} />}
      {rows.length > MAX_ROWS && <p className={styles.since}>{t("moreRows", { n: rows.length - MAX_ROWS })}</p>}
      {shown && <CardNow card={shown.id} onClose={() => setShown(null)} />}
      {changed && <ChangeCard card={changed} known={all.map((card) => card.divide.policy)} onClose={() => setChanged(null)} />}
    </Panel>
  );
}

interface Change {
  card: CardDivision;
  known: string[];
  onClose: () => void;
}

function ChangeCard({ card, known, onClose }: Change) {
  const t = useTexts(text);
  const common = useT();
  const list = useId();
  const queries = useQueryClient();
  const [policy, setPolicy] = useState(card.divide.own ? card.divide.policy : "");
  const [note, setNote] = useState("");
  const save = useMutation({
    mutationFn: () => need(api.PUT("/api/v1/cards/{card}/divide", {
      params: { path: { card: card.id } }, body: { policy: policy.trim() || null, note },
    })),
    onSuccess: (now) => {
      void queries.invalidateQueries({ queryKey: ["cards"] });
      toast(t("cardDone", { card: card.id, policy: now.divide.policy }));
      onClose();
    },
  });
  const refused = save.error instanceof ApiError && save.error.field === "policy" ? `${save.error.message} – ${save.error.cure}` : "";
  const send = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <Dialog title={t("changeCard", { card: card.id })} onClose={onClose}>
      <form className={styles.switch} onSubmit={send}>
        <Fields>
          <Field label={t("cardPolicy")} isWide error={refused} hint={t("cardHint", { mode: card.divide.of_mode })}>
            {(control) => (
              <input
                {...control} value={policy} list={list} placeholder={card.divide.of_mode} autoComplete="off" spellCheck={false}
                onChange={(event) => setPolicy(event.target.value)}
              />
            )}
          </Field>
          <Field label={t("note")} isWide>
            {(control) => <input {...control} value={note} maxLength={200} onChange={(event) => setNote(event.target.value)} />}
          </Field>
        </Fields>
        <datalist id={list}>{[...new Set(known)].map((name) => <option key={name} value={name} />)}</datalist>
        <p className={styles.since}>{card.divide.message}</p>
        {save.error && !refused && <ErrorBox error={save.error} />}
        <DialogButtons>
          <Button onClick={onClose}>{common("common.cancel")}</Button>
          <Button kind="primary" type="submit" disabled={save.isPending}>{t("save")}</Button>
        </DialogButtons>
      </form>
    </Dialog>
  );
}
