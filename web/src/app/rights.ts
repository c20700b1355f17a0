// What this page offers to whom. The service decides again, and alone, at every call: here it only saves clicks that
// would be refused. The same rules as in the server's rights.py.
import type { Schemas } from "../api/client";
import { useMe } from "../api/queries";

export type Me = Schemas["Me"];
interface Owned {
  tenant: string;
  user: string;
}

export function maySubmit(me: Me): boolean {
  return me.role !== "viewer" && me.scopes.includes("submit");
}

export function mayAct(me: Me, on: Owned): boolean {
  return maySubmit(me) && (me.is_admin || (on.user === me.user && on.tenant === me.tenant));
}

/** What a job printed and how it was started is its owner's business. */
export function mayReadLogs(me: Me, of: Owned): boolean {
  return me.is_admin || (me.role !== "viewer" && of.user === me.user && of.tenant === me.tenant);
}

/** Inside the frame somebody is always logged in. */
export function useWho(): Me {
  const { data } = useMe();
  if (!data) throw new Error("useWho is for pages inside the frame");
  return data;
}
