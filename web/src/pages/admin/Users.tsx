import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, need, type Schemas } from "../../api/client";
import { useWho } from "../../app/rights";
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
import { useTenants } from "./Tenants";
import { text } from "./texts";

type User = Schemas["UserView"];
const ROLES = ["viewer", "member", "admin"] as const;
const FIRST: User = { name: "", tenant: "default", role: "member", disabled: false };

export function useUsers() {
  return useQuery({ queryKey: ["users"], queryFn: () => need(api.GET("/api/v1/users")) });
}

export function Users() {
  const say = useTexts(text);
  const common = useT();
  const me = useWho();
  const users = useUsers();
  const [edited, setEdited] = useState<User | null>(null);
  const columns: Column<User>[] = [
    { name: say("name"), isHead: true, cell: (one) => one.name },
    { name: say("tenant"), cell: (one) => one.tenant },
    { name: say("role"), cell: (one) => <Badge tone={one.role === "admin" ? "accent" : "plain"}>{common(`role.${one.role}`)}</Badge> },
    { name: say("state"), cell: (one) => (one.disabled ? <Badge tone="bad">{say("disabled")}</Badge> : say("active")) },
  ];
  if (me.is_admin) columns.push({
    name: say("actions"), isQuiet: true, isNumber: true,
    cell: (one) => <Button isSmall aria-label={`${say("edit")} ${one.name}`} onClick={() => setEdited(one)}>{say("edit")}</Button>,
  });
  return (
    <Panel title={say("users")} tools={me.is_admin && <Button isSmall onClick={() => setEdited(FIRST)}>{say("addUser")}</Button>}>
      {users.error && <ErrorBox error={users.error} onRetry={() => void users.refetch()} />}
      {users.data && <DataTable label={say("users")} rows={users.data.items} columns={columns} rowKey={(one) => one.name} />}
      {edited && <UserDialog user={edited} onClose={() => setEdited(null)} />}
    </Panel>
  );
}

function UserDialog({ user, onClose }: { user: User; onClose: () => void }) {
  const say = useTexts(text);
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
      toast(say("userSaved", { name: saved.name }));
      onClose();
    },
  });
  return (
    <EditDialog
      title={isNew ? say("addUser") : say("editUser", { name: user.name })} action={say("save")} isBusy={save.isPending}
      error={save.error} fields={["name", "tenant", "role"]} onSave={() => save.mutate(body)} onClose={onClose}
    >
      {isNew && (
        <Field label={say("name")} error={errorAt(save.error, "name")} isWide>
          {(given) => <input {...given} required autoFocus value={body.name} autoComplete="off" onChange={(event) => put({ name: event.target.value })} />}
        </Field>
      )}
      <Field label={say("tenant")} error={errorAt(save.error, "tenant")}>
        {(given) => (
          <select {...given} value={body.tenant} onChange={(event) => put({ tenant: event.target.value })}>
            {(tenants.data?.items ?? [{ name: body.tenant }]).map((one) => <option key={one.name}>{one.name}</option>)}
          </select>
        )}
      </Field>
      <Field label={say("role")}>
        {(given) => (
          <select {...given} value={body.role} onChange={(event) => put({ role: event.target.value as User["role"] })}>
            {ROLES.map((role) => <option key={role} value={role}>{common(`role.${role}`)}</option>)}
          </select>
        )}
      </Field>
      {!isNew && (
        <label className={styles.check}>
          <input type="checkbox" checked={body.disabled} onChange={(event) => put({ disabled: event.target.checked })} /> {say("isDisabled")}
        </label>
      )}
    </EditDialog>
  );
}
