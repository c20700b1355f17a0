import { expect, test } from "vitest";
import { filtered, joined, nextSorting, NO_FILTER, reasonOf, type Row, sorted, startRange } from "./rows";

const row = (id: string, more: Partial<Row> = {}): Row =>
  ({ id, name: id, user: "ann", tenant: "a", queue: "", state: "pending", priority: "normal", gpus: 1, submitted_s: 0, cause: "",
     started_s: null, ...more }) as Row;
const ids = (rows: readonly Row[]) => rows.map((row) => row.id).join(" ");
const nothing = { running: [], held: [], head: [], all: [], ended: new Set<string>() };

test("a started job is not shown as pending, and an ended job not at all", () => {
  const rows = joined({
    ...nothing, running: [row("a", { state: "running" })], head: [row("b", { position: 1 })],
    all: [row("a"), row("b", { position: 2 }), row("c"), row("d")], ended: new Set(["c"]),
  });
  expect(ids(rows)).toBe("a b d");
  expect(rows[1]!.position).toBe(1);
});

test("held jobs come last", () => {
  expect(ids(joined({ ...nothing, held: [row("h", { state: "held" })], head: [row("a")], all: [row("h"), row("b")] }))).toBe("a b h");
});

test("every word of a search must be found", () => {
  const rows = [row("train-1", { user: "bob" }), row("train-2"), row("eval-2")];
  expect(ids(filtered(rows, { ...NO_FILTER, text: "TRAIN bob" }))).toBe("train-1");
  expect(ids(filtered(rows, { ...NO_FILTER, text: "2", user: "ann" }))).toBe("train-2 eval-2");
});

test("sorting is stable, with numbers by value and priorities by rank", () => {
  const rows = [row("a", { gpus: 10 }), row("b", { gpus: 9, priority: "urgent" }), row("c", { gpus: 10, priority: "low" }), row("d", { gpus: 10, priority: "70" })];
  expect(ids(sorted(rows, { by: "gpus", isDown: false }))).toBe("b a c d");
  expect(ids(sorted(rows, { by: "gpus", isDown: true }))).toBe("a c d b");
  expect(ids(sorted(rows, { by: "priority", isDown: true }))).toBe("b d a c");
});

test("numbers in names are sorted by value", () => {
  expect(ids(sorted([row("train-10"), row("Train-2"), row("train-1")], { by: "name", isDown: false }))).toBe("train-1 Train-2 train-10");
});

test("jobs without a forecast are sorted last by start", () => {
  expect(ids(sorted([row("a"), row("b", { eta_s: 5 })], { by: "eta", isDown: false }))).toBe("b a");
});

test("the third click restores the order of the queue", () => {
  const up = nextSorting({ by: "position", isDown: false }, "name");
  const down = nextSorting(up, "name");
  expect([up.isDown, down.isDown, nextSorting(down, "name").by]).toEqual([false, true, "position"]);
});

test("ten thousand rows are filtered and sorted within 200 ms", () => {
  const many = Array.from({ length: 10_000 }, (_, i) => row(`job-${(i * 7919) % 10_000}`, { gpus: i % 8 }));
  const start_ms = performance.now();
  sorted(filtered(many, { ...NO_FILTER, text: "job" }), { by: "name", isDown: false });
  expect(performance.now() - start_ms).toBeLessThan(200);
});

test("a start is shown as a range to the P90, or to the reservation without a P90", () => {
  expect(startRange(row("a", { eta_s: 100, eta_high_s: 400, promised_s: 900 }))).toEqual({ from_s: 100, to_s: 400 });
  expect(startRange(row("a", { eta_s: 100, promised_s: 900 }))).toEqual({ from_s: 100, to_s: 900 });
  expect(startRange(row("a", { eta_s: 100, eta_high_s: 130 }))).toEqual({ from_s: 100, to_s: null });
  expect(startRange(row("a", { promised_s: 900 }))).toEqual({ from_s: null, to_s: 900 });
  expect(startRange(row("a"))).toEqual({ from_s: null, to_s: null });
});

test("a reserved start before the forecast is not the end of a range", () => {
  expect(startRange(row("a", { eta_s: 900, promised_s: 100 }))).toEqual({ from_s: 900, to_s: null });
});

test("the reason of a running job is what hang detection warns about", () => {
  const warning = { rule: "silent", message: "no output for 12m", cure: "", since_s: 0, warned_s: 1, stops_s: null };
  const hangs = row("a", { state: "running", hang_warnings: [warning] });
  expect(reasonOf(hangs)).toBe("silent: no output for 12m");
  expect(reasonOf(row("b", { state: "running", hang_warnings: [] }))).toBe("");
  expect(ids(filtered([hangs, row("b")], { ...NO_FILTER, text: "silent" }))).toBe("a");
});
