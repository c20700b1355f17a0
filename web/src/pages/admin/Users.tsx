import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, need, type Schemas } from "../../api/client";
import { useCurrentUser } from "../../app/permissions";
import { useT, useTexts } from "../../i18n";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { type Column, DataTable } from "../../ui/DataTable";
import { ErrorBox } from "../../ui/ErrorBox";
import { Field } from "../../ui/Field";
import { Panel } from "../../ui/Panel";
import { toast } from "../../ui/Toast";
import styles from "./Admin.module.css";
import { EditDialog, errorAt } from "./EditDialog";
import { choices, shown } from "./priorities";
import { useTenants } from "./Tenants";
import { text } from "./texts";

type User = Schemas["UserView"];
const ROLES = ["viewer", "member", "admin"] as const;
const NEW_USER: User = { name: "", tenant: "default", role: "member", disabled: false, max_priority: null, may_choose_lane: null };

export function useUsers() {
  return useQuery({ queryKey: ["users"], queryFn: () => need(api.GET("/api/v1/users")) });
}

export function Users() {
  const t = useTexts(text);
  const common = useT();
  const me = useCurrentUser();
  const users = useUsers();
  const [edited, setEdited] = useState<User | null>(null);
  const columns: Column<User>[] = [
    { name: t("name"), isHead: true, cell: (row) => row.name },
    { name: t("tenant"), cell: (row) => row.tenant },
    { name: t("role"), cell: (row) => <Badge tone={row.role === "admin" ? "accent" : "plain"}>{common(`role.${row.role}`)}</Badge> },
    {
      name: t("maxPriority"),
      cell: (row) => (row.role === "admin" ? t("priority.any") : row.max_priority ? shown(row.max_priority, t) : t("asTenant")),
    },
    {
      name: t("lanes"),
      cell: (row) => t(row.role === "admin" ? "lanes.any" : row.may_choose_lane === null ? "asTenant" : row.may_choose_lane ? "lanes.any" : "lanes.byRule"),
    },
    { name: t("state"), cell: (row) => (row.disabled ? <Badge tone="bad">{t("disabled")}</Badge> : t("active")) },
  ];
  if (me.is_admin) columns.push({
    name: t("actions"), isQuiet: true, isNumber: true,
    cell: (row) => <Button isSmall aria-label={`${t("edit")} ${row.name}`} onClick={() => setEdited(row)}>{t("edit")}</Button>,
  });
  return (
    <Panel title={t("users")} tools={me.is_admin && <Button isSmall onClick={() => setEdited(NEW_USER)}>{t("addUser")}</Button>}>
      {users.error && <ErrorBox error={users.error} onRetry={() => void users.refetch()} />}
      {users.data && <DataTable label={t("users")} rows={users.data.items} columns={columns} rowKey={(row) => row.name} />}
      {edited && <UserDialog user={edited} onClose={() => setEdited(null)} />}
    </Panel>
  );
}

function UserDialog({ user, onClose }: { user: User; onClose: () => void }) {
  const t = useTexts(text);
  const common = useT();
  const queries = useQueryClient();
  const tenants = useTenants();
  const isNew = user.name === "";
  const [body, setBody] = useState(user);
  const put = (next: Partial<User>) => setBody({ ...body, ...next });
  const save = useMutation({
    mutationFn: ({ name, ...rest }: User) =>
      isNew ? need(api.POST("/api/v1/users", { body: { name, ...rest } }))
        : need(api.PATCH("/api/v1/users/{name}", { params: { path: { name } }, body: rest })),
    onSuccess: (saved) => {
      for (const topic of ["users", "me"]) void queries.invalidateQueries({ queryKey: [topic] });
      toast(t("userSaved", { name: saved.name }));
      onClose();
    },
  });
  return (
    <EditDialog
      title={isNew ? t("addUser") : t("editUser", { name: user.name })} action={t("save")} isBusy={save.isPending}
      error={save.error} fields={["name", "tenant", "role", "max_priority", "may_choose_lane"]} onSave={() => save.mutate(body)} onClose={onClose}
    >
      {isNew && (
        <Field label={t("name")} error={errorAt(save.error, "name")} isWide>
          {(control) => <input {...control} required autoFocus value={body.name} autoComplete="off" onChange={(event) => put({ name: event.target.value })} />}
        </Field>
      )}
      <Field label={t("tenant")} error={errorAt(save.error, "tenant")}>
        {(control) => (
          <select {...control} value={body.tenant} onChange={(event) => put({ tenant: event.target.value })}>
            {(tenants.data?.items ?? [{ name: body.tenant }]).map((other) => <option key={other.name}>{other.name}</option>)}
          </select>
        )}
      </Field>
      <Field label={t("role")}>
        {(control) => (
          <select {...control} value={body.role} onChange={(event) => put({ role: event.target.value as User["role"] })}>
            {ROLES.map((role) => <option key={role} value={role}>{common(`role.${role}`)}</option>)}
          </select>
        )}
      </Field>
      {body.role !== "admin" && (
        <>
          <Field label={t("maxPriority")} error={errorAt(save.error, "max_priority")}>
            {(control) => (
              <select
                {...control} value={body.max_priority ?? ""}
                onChange={(event) => put({ max_priority: (event.target.value || null) as User["max_priority"] })}
              >
                <option value="">{t("asTenant")}</option>
                {choices(user.max_priority).map((name) => <option key={name} value={name}>{shown(name, t)}</option>)}
              </select>
            )}
          </Field>
          <Field label={t("lanes")} error={errorAt(save.error, "may_choose_lane")}>
            {(control) => (
              <select
                {...control} value={body.may_choose_lane === null ? "" : `${body.may_choose_lane}`}
                onChange={(event) => put({ may_choose_lane: event.target.value === "" ? null : event.target.value === "true" })}
              >
                <option value="">{t("asTenant")}</option>
                <option value="false">{t("lanes.byRule")}</option>
                <option value="true">{t("lanes.any")}</option>
              </select>
            )}
          </Field>
        </>
      )}
      {!isNew && (
        <label className={styles.check}>
          <input type="checkbox" checked={body.disabled} onChange={(event) => put({ disabled: event.target.checked })} /> {t("isDisabled")}
        </label>
      )}
    </EditDialog>
  );
}
