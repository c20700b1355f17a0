// Which actions the dashboard offers. The rules are those of server/permissions.py; the service checks every call itself.
import type { Schemas } from "../api/client";
import { useMe } from "../api/queries";

export type Me = Schemas["Me"];
interface OwnedResource {
  tenant: string;
  user: string;
}

export function maySubmit(me: Me): boolean {
  return me.role !== "viewer" && me.scopes.includes("submit");
}

export function mayAct(me: Me, job: OwnedResource): boolean {
  return maySubmit(me) && (me.is_admin || (job.user === me.user && job.tenant === me.tenant));
}

/** Only the owner and administrators may read the output of a job and its command. */
export function mayReadLogs(me: Me, job: OwnedResource): boolean {
  return me.is_admin || (me.role !== "viewer" && job.user === me.user && job.tenant === me.tenant);
}

/** The logged-in user. Only for pages inside the frame. */
export function useCurrentUser(): Me {
  const { data } = useMe();
  if (!data) throw new Error("useCurrentUser is for pages inside the frame");
  return data;
}
