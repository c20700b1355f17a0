import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, need, type Schemas } from "../../api/client";
import { useCurrentUser } from "../../app/permissions";
import { type Translate, useTexts } from "../../i18n";
import { span } from "../../i18n/format";
import { Button } from "../../ui/Button";
import { type Column, DataTable } from "../../ui/DataTable";
import { ErrorBox } from "../../ui/ErrorBox";
import { Panel } from "../../ui/Panel";
import { toast } from "../../ui/Toast";
import { type Body, TenantDialog } from "./TenantDialog";
import { shown } from "./priorities";
import { text } from "./texts";

export type Tenant = Schemas["TenantView"];

export function useTenants() {
  return useQuery({ queryKey: ["tenants"], queryFn: () => need(api.GET("/api/v1/tenants")) });
}

export function Tenants() {
  const t = useTexts(text);
  const me = useCurrentUser();
  const tenants = useTenants();
  const [edited, setEdited] = useState<Tenant | "new" | null>(null);
  const columns: Column<Tenant>[] = [
    { name: t("name"), isHead: true, cell: (row) => row.name },
    { name: t("weight"), isNumber: true, cell: (row) => row.weight },
    { name: t("guaranteed"), isNumber: true, cell: (row) => row.guaranteed_gpus ?? "–" },
    { name: t("limit"), isNumber: true, cell: (row) => row.limit_gpus ?? "–" },
    { name: t("reclaim"), isNumber: true, cell: (row) => (row.reclaim_s ? span(row.reclaim_s) : "–") },
    { name: t("maxPending"), isNumber: true, cell: (row) => row.max_pending ?? "–" },
    { name: t("maxPriority"), cell: (row) => shown(row.max_priority, t) },
    { name: t("lanes"), cell: (row) => t(row.may_choose_lane ? "lanes.any" : "lanes.byRule") },
    { name: t("onHang"), cell: (row) => t(row.on_hang === "stop" ? "hang.stop" : "hang.warn") },
  ];
  const hasBudgets = tenants.data?.items.some((row) => row.urgent_gpu_hours !== null);
  if (hasBudgets) columns.push({ name: t("urgentHours"), isNumber: true, cell: (row) => urgentHours(row, t) });
  if (me.is_admin) columns.push({
    name: t("actions"), isQuiet: true, isNumber: true,
    cell: (row) => <Button isSmall aria-label={`${t("edit")} ${row.name}`} onClick={() => setEdited(row)}>{t("edit")}</Button>,
  });
  return (
    <Panel
      title={t("tenants")}
      tools={me.is_admin && <Button isSmall onClick={() => setEdited("new")}>{t("addTenant")}</Button>}
    >
      {tenants.error && <ErrorBox error={tenants.error} onRetry={() => void tenants.refetch()} />}
      {tenants.data && <DataTable label={t("tenants")} rows={tenants.data.items} columns={columns} rowKey={(row) => row.name} />}
      {edited && <Edit tenant={edited === "new" ? null : edited} onClose={() => setEdited(null)} />}
    </Panel>
  );
}

/** Used, and the budget if there is one. */
function urgentHours(row: Tenant, t: Translate<keyof (typeof text)["en"]>) {
  const used = row.urgent_gpu_hours_used.toFixed(1);
  return row.urgent_gpu_hours === null ? used : t("urgentOf", { used, budget: row.urgent_gpu_hours });
}

function Edit({ tenant, onClose }: { tenant: Tenant | null; onClose: () => void }) {
  const t = useTexts(text);
  const queries = useQueryClient();
  const save = useMutation({
    mutationFn: ({ name, ...body }: Body) =>
      tenant === null
        ? need(api.POST("/api/v1/tenants", { body: { name, ...body } }))
        : need(api.PUT("/api/v1/tenants/{name}", { params: { path: { name } }, body })),
    onSuccess: (saved) => {
      void queries.invalidateQueries({ queryKey: ["tenants"] });
      toast(t("tenantSaved", { name: saved.name }));
      onClose();
    },
  });
  return <TenantDialog tenant={tenant} error={save.error} isBusy={save.isPending} onSave={(body) => save.mutate(body)} onClose={onClose} />;
}
