import type { ReactNode } from "react";
import { Link } from "wouter";
import type { Schemas } from "../../api/client";
import { useT, useTexts } from "../../i18n";
import { gib, pace, percent, span } from "../../i18n/format";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { type Column, DataTable } from "../../ui/DataTable";
import { Dialog, DialogButtons } from "../../ui/Dialog";
import { ErrorBox } from "../../ui/ErrorBox";
import styles from "./Policy.module.css";
import { useCard } from "./queries";
import { text } from "./texts";

type Now = Schemas["CardNow"];
type Tenant = Schemas["TenantNow"];

/** How a card is divided at this moment, and among whom. */
export function CardNow({ card, onClose }: { card: string; onClose: () => void }) {
  const say = useTexts(text);
  const common = useT();
  const { data, error } = useCard(card);
  return (
    <Dialog title={say("cardNow", { card })} isWide onClose={onClose}>
      {error && <ErrorBox error={error} />}
      {data && !data.now && <p className={styles.since}>{say("nobodyShares")}</p>}
      {data?.now && <Facts now={data.now} />}
      {data?.now && data.now.tenants.length > 0 && <Tenants now={data.now} />}
      <DialogButtons><Button onClick={onClose}>{common("common.close")}</Button></DialogButtons>
    </Dialog>
  );
}

function Facts({ now }: { now: Now }) {
  const say = useTexts(text);
  const squads = now.squads > 0 ? say("squadsOf", { configuration: now.configuration, ms: now.length_us / 1000 }) : "";
  const facts: [string, ReactNode][] = [
    [say("dividedBy"), <code>{now.policy}</code>],
    [say("squads"), squads],
    [say("why"), now.why],
    [say("failure"), now.failure && <Badge tone="bad">{now.failure}</Badge>],
    [say("pool"), now.pool],
    [say("contexts"), now.context_bytes ? say("contextsEach", { gib: gib(now.context_bytes) }) : ""],
    [say("strangers"), now.stranger_count ? <Strangers now={now} /> : ""],
  ];
  return (
    <dl className={styles.parts}>
      {facts.filter(([, told]) => told).map(([name, told]) => <div key={name}><dt>{name}</dt><dd>{told}</dd></div>)}
    </dl>
  );
}

function Strangers({ now }: { now: Now }) {
  const say = useTexts(text);
  const named = now.strangers.map((one) => `${one.pid} ${one.name}`.trim()).join(", ");
  const told = [named, say("rule", { rule: now.rule })].filter(Boolean).join(" · ");
  return <><Badge tone="warn">{say("unheld", { n: now.stranger_count })}</Badge> {told}</>;
}

function Tenants({ now }: { now: Now }) {
  const say = useTexts(text);
  const columns: Column<Tenant>[] = [
    {
      name: say("job"), isHead: true,
      cell: (one) => (one.job ? <Link href={`/jobs/${one.job}`}>{one.name || one.job}</Link> : one.name || one.id || say("otherTenant")),
    },
    { name: say("sms"), isNumber: true, cell: (one) => (one.groups ? percent(one.sm_ratio) : say("allSms")) },
    {
      name: say("memoryHeld"), isNumber: true,
      cell: (one) => `${gib(one.used_bytes)}${one.quota_bytes ? ` / ${gib(one.quota_bytes)}` : ""} GiB`,
    },
    { name: say("mostHeld"), isNumber: true, cell: (one) => (one.peak_bytes == null ? "–" : `${gib(one.peak_bytes)} GiB`) },
    { name: say("goalMet"), isNumber: true, cell: (one) => percent(one.slo && one.attainment_ratio) },
    { name: say("iterations"), isNumber: true, cell: (one) => pace(one.iterations_per_s) },
    { name: say("waited"), isNumber: true, cell: (one) => (one.waited_s == null ? "–" : span(one.waited_s)) },
    { name: say("does"), cell: (one) => <Does one={one} /> },
  ];
  return <DataTable label={say("sharers")} rows={now.tenants} columns={columns} rowKey={(one) => now.tenants.indexOf(one)} />;
}

function Does({ one }: { one: Tenant }) {
  const say = useTexts(text);
  const state = one.waiting ? "waits" : one.is_idle ? "idle" : "runs";
  const isKnown = one.waiting != null || one.is_idle != null; // of other tenants it is not told
  return (
    <span title={one.note}>
      {isKnown && <Badge tone={state === "runs" ? "good" : state === "waits" ? "info" : "plain"}>{say(`does.${state}`)}</Badge>}
      {one.isolation === "isolated" && <> <Badge tone="plain">{say("isolated")}</Badge></>}
    </span>
  );
}
