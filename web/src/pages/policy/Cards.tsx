import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useId, useState } from "react";
import { api, need } from "../../api/client";
import { ApiError } from "../../api/errors";
import { useWho } from "../../app/rights";
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

const MANY = 32;
const SHOWN = 200;
const TONES: Record<CardDivision["divide"]["effect"], Tone> = { live: "good", told: "info", unused: "plain", kept: "warn" };

/** How each card is divided; those that differ from the mode first. */
export function Cards() {
  const say = useTexts(text);
  const me = useWho();
  const cards = useCards();
  const [isOwnOnly, setOwnOnly] = useState<boolean | null>(null);
  const [shown, setShown] = useState<CardDivision | null>(null);
  const [changed, setChanged] = useState<CardDivision | null>(null);
  const all = cards.data?.items ?? [];
  const ownOnly = isOwnOnly ?? all.length > MANY;
  const rows = all.filter((card) => card.divide.own || !ownOnly).sort((a, b) => +b.divide.own - +a.divide.own);
  const columns: Column<CardDivision>[] = [
    { name: say("card"), isHead: true, cell: (card) => card.id },
    { name: say("node"), cell: (card) => card.node },
    {
      name: say("dividedBy"),
      cell: (card) => <><code>{card.divide.policy}</code> {card.divide.own && <Badge tone="share">{say("own")}</Badge>}</>,
    },
    {
      name: say("effect"),
      cell: (card) => <span title={card.divide.message}><Badge tone={TONES[card.divide.effect]}>{say(`effect.${card.divide.effect}`)}</Badge></span>,
    },
    {
      name: say("show"), isQuiet: true, isNumber: true,
      cell: (card) => <Button isSmall aria-label={`${say("show")} ${card.id}`} onClick={() => setShown(card)}>{say("show")}</Button>,
    },
  ];
  if (me.is_admin) columns.push({
    name: say("change"), isQuiet: true, isNumber: true,
    cell: (card) => <Button isSmall aria-label={`${say("change")} ${card.id}`} onClick={() => setChanged(card)}>{say("change")}</Button>,
  });
  return (
    <Panel
      title={say("cards")} note={say("cardsNote")}
      tools={
        <label className={styles.check}>
          <input type="checkbox" checked={ownOnly} onChange={(event) => setOwnOnly(event.target.checked)} /> {say("cardsOwn")}
        </label>
      }
    >
      {cards.error && <ErrorBox error={cards.error} onRetry={() => void cards.refetch()} />}
      {cards.data && rows.length === 0 && <p className={styles.since}>{say("allAsMode")}</p>}
      {rows.length > 0 && <DataTable label={say("cards")} rows={rows.slice(0, SHOWN)} columns={columns} rowKey={(card) => card.id} />}
      {rows.length > SHOWN && <p className={styles.since}>{say("moreRows", { n: rows.length - SHOWN })}</p>}
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
  const say = useTexts(text);
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
      toast(say("cardDone", { card: card.id, policy: now.divide.policy }));
      onClose();
    },
  });
  const refused = save.error instanceof ApiError && save.error.field === "policy" ? `${save.error.message} – ${save.error.cure}` : "";
  const send = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <Dialog title={say("changeCard", { card: card.id })} onClose={onClose}>
      <form className={styles.switch} onSubmit={send}>
        <Fields>
          <Field label={say("cardPolicy")} isWide error={refused} hint={say("cardHint", { mode: card.divide.of_mode })}>
            {(given) => (
              <input
                {...given} value={policy} list={list} placeholder={card.divide.of_mode} autoComplete="off" spellCheck={false}
                onChange={(event) => setPolicy(event.target.value)}
              />
            )}
          </Field>
          <Field label={say("note")} isWide>
            {(given) => <input {...given} value={note} maxLength={200} onChange={(event) => setNote(event.target.value)} />}
          </Field>
        </Fields>
        <datalist id={list}>{[...new Set(known)].map((one) => <option key={one} value={one} />)}</datalist>
        <p className={styles.since}>{card.divide.message}</p>
        {save.error && !refused && <ErrorBox error={save.error} />}
        <DialogButtons>
          <Button onClick={onClose}>{common("common.cancel")}</Button>
          <Button kind="primary" type="submit" disabled={save.isPending}>{say("save")}</Button>
        </DialogButtons>
      </form>
    </Dialog>
  );
}
