import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, need, type Schemas } from "../../api/client";
import { useWho } from "../../app/rights";
import { useTexts } from "../../i18n";
import { span } from "../../i18n/format";
import { Button } from "../../ui/Button";
import { type Column, DataTable } from "../../ui/DataTable";
import { ErrorBox } from "../../ui/ErrorBox";
import { Panel } from "../../ui/Panel";
import { toast } from "../../ui/Toast";
import { TenantDialog } from "./TenantDialog";
import { text } from "./texts";

export type Tenant = Schemas["TenantView"];

export function useTenants() {
  return useQuery({ queryKey: ["tenants"], queryFn: () => need(api.GET("/api/v1/tenants")) });
}

export function Tenants() {
  const say = useTexts(text);
  const me = useWho();
  const tenants = useTenants();
  const [edited, setEdited] = useState<Tenant | "new" | null>(null);
  const columns: Column<Tenant>[] = [
    { name: say("name"), isHead: true, cell: (one) => one.name },
    { name: say("weight"), isNumber: true, cell: (one) => one.weight },
    { name: say("guaranteed"), isNumber: true, cell: (one) => one.guaranteed_gpus ?? "–" },
    { name: say("limit"), isNumber: true, cell: (one) => one.limit_gpus ?? "–" },
    { name: say("reclaim"), isNumber: true, cell: (one) => (one.reclaim_s ? span(one.reclaim_s) : "–") },
    { name: say("maxPending"), isNumber: true, cell: (one) => one.max_pending ?? "–" },
    { name: say("onHang"), cell: (one) => say(one.on_hang === "stop" ? "hang.stop" : "hang.warn") },
  ];
  if (me.is_admin) columns.push({
    name: say("actions"), isQuiet: true, isNumber: true,
    cell: (one) => <Button isSmall aria-label={`${say("edit")} ${one.name}`} onClick={() => setEdited(one)}>{say("edit")}</Button>,
  });
  return (
    <Panel
      title={say("tenants")}
      tools={me.is_admin && <Button isSmall onClick={() => setEdited("new")}>{say("addTenant")}</Button>}
    >
      {tenants.error && <ErrorBox error={tenants.error} onRetry={() => void tenants.refetch()} />}
      {tenants.data && <DataTable label={say("tenants")} rows={tenants.data.items} columns={columns} rowKey={(one) => one.name} />}
      {edited && <Edit tenant={edited === "new" ? null : edited} onClose={() => setEdited(null)} />}
    </Panel>
  );
}

function Edit({ tenant, onClose }: { tenant: Tenant | null; onClose: () => void }) {
  const say = useTexts(text);
  const queries = useQueryClient();
  const save = useMutation({
    mutationFn: ({ name, ...body }: Schemas["NewTenant"]) =>
      tenant === null
        ? need(api.POST("/api/v1/tenants", { body: { name, ...body } }))
        : need(api.PUT("/api/v1/tenants/{name}", { params: { path: { name } }, body })),
    onSuccess: (saved) => {
      void queries.invalidateQueries({ queryKey: ["tenants"] });
      toast(say("tenantSaved", { name: saved.name }));
      onClose();
    },
  });
  return <TenantDialog tenant={tenant} error={save.error} isBusy={save.isPending} onSave={(body) => save.mutate(body)} onClose={onClose} />;
}
