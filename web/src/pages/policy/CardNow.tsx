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
type Client = Schemas["TenantNow"];

/** Current division of a card, and its GPU clients. */
export function CardNow({ card, onClose }: { card: string; onClose: () => void }) {
  const t = useTexts(text);
  const common = useT();
  const { data, error } = useCard(card);
  return (
    <Dialog title={t("cardNow", { card })} isWide onClose={onClose}>
      {error && <ErrorBox error={error} />}
      {data && !data.now && <p className={styles.since}>{t("noClients")}</p>}
      {data?.now && <Facts now={data.now} />}
      {data?.now && data.now.tenants.length > 0 && <Clients now={data.now} />}
      <DialogButtons><Button onClick={onClose}>{common("common.close")}</Button></DialogButtons>
    </Dialog>
  );
}

function Facts({ now }: { now: Now }) {
  const t = useTexts(text);
  const squads = now.squads > 0 ? t("squadsOf", { configuration: now.configuration, ms: now.length_us / 1000 }) : "";
  const facts: [string, ReactNode][] = [
    [t("dividedBy"), <code>{now.policy}</code>],
    [t("squads"), squads],
    [t("why"), now.why],
    [t("failure"), now.failure && <Badge tone="bad">{now.failure}</Badge>],
    [t("pool"), now.pool],
    [t("contexts"), now.context_bytes ? t("contextsEach", { gib: gib(now.context_bytes) }) : ""],
    [t("unmanaged"), now.unmanaged_count ? <UnmanagedProcesses now={now} /> : ""],
  ];
  return (
    <dl className={styles.parts}>
      {facts.filter(([, value]) => value).map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
    </dl>
  );
}

function UnmanagedProcesses({ now }: { now: Now }) {
  const t = useTexts(text);
  const named = now.unmanaged.map((process) => `${process.pid} ${process.name}`.trim()).join(", ");
  const details = [named, t("rule", { rule: now.rule })].filter(Boolean).join(" · ");
  return <><Badge tone="warn">{t("unmanagedCount", { n: now.unmanaged_count })}</Badge> {details}</>;
}

/** Whether an attainment is measured: a deadline alone has none. */
function hasTarget(row: Client): boolean {
  return Object.keys(row.slo ?? {}).some((name) => name !== "deadline_us");
}

function Clients({ now }: { now: Now }) {
  const t = useTexts(text);
  const columns: Column<Client>[] = [
    {
      name: t("job"), isHead: true,
      cell: (row) => (row.job ? <Link href={`/jobs/${row.job}`}>{row.name || row.job}</Link> : row.name || row.id || t("otherTenant")),
    },
    { name: t("sms"), isNumber: true, cell: (row) => (row.groups ? percent(row.sm_ratio) : t("allSms")) },
    {
      name: t("memoryHeld"), isNumber: true,
      cell: (row) => `${gib(row.used_bytes)}${row.quota_bytes ? ` / ${gib(row.quota_bytes)}` : ""} GiB`,
    },
    { name: t("mostHeld"), isNumber: true, cell: (row) => (row.peak_bytes == null ? "–" : `${gib(row.peak_bytes)} GiB`) },
    { name: t("goalMet"), isNumber: true, cell: (row) => (hasTarget(row) && row.attainment_ratio === null ? t("unknown") : percent(row.slo && row.attainment_ratio)) },
    { name: t("iterations"), isNumber: true, cell: (row) => pace(row.iterations_per_s) },
    { name: t("waited"), isNumber: true, cell: (row) => (row.waited_s == null ? "–" : span(row.waited_s)) },
    { name: t("does"), cell: (row) => <ClientState client={row} /> },
  ];
  return <DataTable label={t("clients")} rows={now.tenants} columns={columns} rowKey={(row) => now.tenants.indexOf(row)} />;
}

function ClientState({ client }: { client: Client }) {
  const t = useTexts(text);
  const state = client.waiting ? "waits" : client.is_idle ? "idle" : "runs";
  const isKnown = client.waiting != null || client.is_idle != null; // not reported for jobs of other tenants
  return (
    <span title={client.note}>
      {isKnown && <Badge tone={state === "runs" ? "good" : state === "waits" ? "info" : "plain"}>{t(`does.${state}`)}</Badge>}
      {client.isolation === "isolated" && <> <Badge tone="plain">{t("isolated")}</Badge></>}
    </span>
  );
}
