import { useState } from "react";
import type { Schemas } from "../../api/client";
import { useTexts } from "../../i18n";
import { Field } from "../../ui/Field";
import { EditDialog, errorAt } from "./EditDialog";
import { choices, shown } from "./priorities";
import type { Tenant } from "./Tenants";
import { text } from "./texts";

export type Body = Schemas["NewTenant"];
interface Props {
  tenant: Tenant | null;
  error: unknown;
  isBusy: boolean;
  onSave: (body: Body) => void;
  onClose: () => void;
}

const NUMBERS = [
  ["guaranteed_gpus", "guaranteed"], ["limit_gpus", "limit"], ["max_pending", "maxPending"],
] as const;
const NEW_TENANT: Body = { name: "", weight: 1, guaranteed_gpus: null, limit_gpus: null, reclaim_s: 0, max_pending: null, on_hang: "stop", run_as: null, max_priority: "normal", may_choose_lane: false, urgent_gpu_hours: null };

/** The settings of a tenant, without what it used. */
function bodyOf({ urgent_gpu_hours_used: _, ...settings }: Tenant): Body {
  return settings as Body;
}

export function TenantDialog({ tenant, error, isBusy, onSave, onClose }: Props) {
  const t = useTexts(text);
  const [body, setBody] = useState<Body>(() => (tenant ? bodyOf(tenant) : NEW_TENANT));
  const put = (next: Partial<Body>) => setBody({ ...body, ...next });
  return (
    <EditDialog
      title={tenant ? t("editTenant", { name: tenant.name }) : t("addTenant")} action={t("save")} isBusy={isBusy} error={error}
      fields={Object.keys(NEW_TENANT)} onSave={() => onSave(body)} onClose={onClose}
    >
      {!tenant && (
        <Field label={t("name")} error={errorAt(error, "name")} isWide>
          {(control) => <input {...control} required autoFocus value={body.name} autoComplete="off" onChange={(event) => put({ name: event.target.value })} />}
        </Field>
      )}
      <Field label={t("weight")} error={errorAt(error, "weight")}>
        {(control) => (
          <input {...control} type="number" required min="0.001" step="any" value={body.weight} onChange={(event) => put({ weight: +event.target.value })} />
        )}
      </Field>
      {NUMBERS.map(([field, label]) => (
        <Field key={field} label={t(label)} error={errorAt(error, field)}>
          {(control) => (
            <input
              {...control} type="number" min="0" step="1" value={body[field] ?? ""} placeholder={t("noLimit")}
              onChange={(event) => put({ [field]: event.target.value === "" ? null : +event.target.value })}
            />
          )}
        </Field>
      ))}
      <Field label={t("reclaim")} error={errorAt(error, "reclaim_s")}>
        {(control) => <input {...control} type="number" min="0" step="any" value={body.reclaim_s} onChange={(event) => put({ reclaim_s: +event.target.value })} />}
      </Field>
      <Field label={t("onHang")}>
        {(control) => (
          <select {...control} value={body.on_hang} onChange={(event) => put({ on_hang: event.target.value as Body["on_hang"] })}>
            <option value="warn">{t("hang.warn")}</option>
            <option value="stop">{t("hang.stop")}</option>
          </select>
        )}
      </Field>
      <Field label={t("runAs")} error={errorAt(error, "run_as")}>
        {(control) => (
          <input {...control} value={body.run_as ?? ""} placeholder={t("noLimit")} autoComplete="off" onChange={(event) => put({ run_as: event.target.value || null })} />
        )}
      </Field>
      <Field label={t("maxPriority")} error={errorAt(error, "max_priority")}>
        {(control) => (
          <select {...control} value={body.max_priority} onChange={(event) => put({ max_priority: event.target.value as Body["max_priority"] })}>
            {choices(tenant?.max_priority).map((name) => <option key={name} value={name}>{shown(name, t)}</option>)}
          </select>
        )}
      </Field>
      <Field label={t("urgentHours")} error={errorAt(error, "urgent_gpu_hours")}>
        {(control) => (
          <input
            {...control} type="number" min="0" step="any" value={body.urgent_gpu_hours ?? ""} placeholder={t("noLimit")}
            onChange={(event) => put({ urgent_gpu_hours: event.target.value === "" ? null : +event.target.value })}
          />
        )}
      </Field>
      <Field label={t("lanes")} error={errorAt(error, "may_choose_lane")}>
        {(control) => (
          <select {...control} value={`${body.may_choose_lane}`} onChange={(event) => put({ may_choose_lane: event.target.value === "true" })}>
            <option value="false">{t("lanes.byRule")}</option>
            <option value="true">{t("lanes.any")}</option>
          </select>
        )}
      </Field>
    </EditDialog>
  );
}
