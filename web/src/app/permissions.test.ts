import { expect, test, vi } from "vitest";
vi.mock("../api/queries", () => ({ useMe: () => ({}) }));
const { mayAct, mayReadLogs, maySubmit } = await import("./permissions");

const me = (role: "admin" | "member" | "viewer", scopes = ["read", "submit"]) => ({
  user: "ann", tenant: "a", role, scopes, is_admin: role === "admin", max_priority: "normal" as const, may_choose_lane: false, token: { id: "", label: "", expires_s: null },
});
const own = { user: "ann", tenant: "a" };
const other = { user: "bob", tenant: "a" };

test("a viewer acts on no job, not even on their own", () => {
  expect(maySubmit(me("viewer"))).toBe(false);
  expect(mayAct(me("viewer"), own)).toBe(false);
  expect(mayReadLogs(me("viewer"), own)).toBe(false);
});

test("a member acts on their own jobs", () => {
  expect(mayAct(me("member"), own)).toBe(true);
  expect(mayAct(me("member"), other)).toBe(false);
  expect(mayAct(me("member"), { user: "ann", tenant: "b" })).toBe(false);
  expect(mayAct(me("member", ["read"]), own)).toBe(false);
});

test("an administrator acts on all jobs", () => {
  expect(mayAct(me("admin"), other)).toBe(true);
});
