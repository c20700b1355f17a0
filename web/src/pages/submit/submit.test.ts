import { expect, test } from "vitest";
import { check } from "./check";
import { optionsAt, contextAt } from "./complete";
import { pathOf, read, spanOf, withField } from "./document";
import { partOf, valueOf } from "./fields";
import type { Schema } from "./schema";

const span: Schema = { anyOf: [{ type: "number", minimum: 0 }, { type: "string", pattern: "^\\d+[smh]$" }], examples: ["2h"] };
const schema: Schema = {
  type: "object",
  additionalProperties: false,
  $defs: { Slo: { type: "object", additionalProperties: false, properties: { deadline: span } } },
  properties: {
    name: { type: "string", description: "What you call it" },
    gpus: { anyOf: [{ type: "integer", minimum: 0, maximum: 4096 }, { const: "auto" }], examples: [1, "auto"] },
    priority: { anyOf: [{ enum: ["low", "high"] }] },
    slo: { $ref: "#/$defs/Slo" },
    roles: { type: "array", items: { type: "object", properties: { gpus: { type: "integer" } }, required: ["name"] } },
    command: { type: "string" },
  },
  allOf: [{ anyOf: [{ required: ["command"] }, { required: ["roles"] }] }],
};

test("a valid job file has no problems", () => {
  expect(check({ name: "a", gpus: 2, command: "x", slo: { deadline: "2h" } }, schema)).toEqual([]);
});

test.each([
  [{ gpu: 1, command: "x" }, ["gpu"], "unknown", "gpus"],
  [{ gpus: "some", command: "x" }, ["gpus"], "choice", "1, auto"],
  [{ gpus: -1, command: "x" }, ["gpus"], "number", "0 … 4096"],
  [{ command: "x", priority: "top" }, ["priority"], "choice", "low, high"],
  [{ command: "x", slo: { deadline: "soon" } }, ["slo", "deadline"], "shape", "2h"],
  [{ name: "a" }, [], "missing", "command, roles"],
  [{ roles: [{ gpus: 1 }] }, ["roles", 0], "missing", "name"],
])("%o is reported at the wrong field", (file, path, fault, hint) => {
  expect(check(file as never, schema)).toEqual([{ path, fault, hint }]);
});

test("unused names are offered, also in nested mappings", () => {
  const top = contextAt("name: a\nco", 10)!;
  expect(top).toMatchObject({ kind: "key", path: [], from: 8 });
  expect(optionsAt(top, schema).map((option) => option.label)).toEqual(["gpus", "priority", "slo", "roles", "command"]);
  const inside = "slo:\n  de";
  expect(optionsAt(contextAt(inside, inside.length)!, schema).map((option) => option.insert)).toEqual(["deadline: "]);
  const item = "roles:\n  - name: a\n    g";
  expect(contextAt(item, item.length)).toMatchObject({ kind: "key", path: ["roles", 0] });
});

test("values are offered for fields with choices", () => {
  const value = "priority: ";
  expect(optionsAt(contextAt(value, value.length)!, schema).map((option) => option.label)).toEqual(["low", "high"]);
});

test("a form field changes only its own line", () => {
  const before = "# mine\nname: a # so called\ngpus: 1\n";
  expect(withField(before, ["gpus"], 4)).toBe("# mine\nname: a # so called\ngpus: 4\n");
  const deep = withField(before, ["slo", "deadline"], "2h");
  expect(deep).toContain("slo:\n  deadline: 2h");
  expect(withField(deep, ["slo", "deadline"], undefined)).toBe(before);
});

test("errors of the service are mapped to positions in the text", () => {
  const text = "name: a\nslo:\n  deadline: never\n";
  expect(pathOf("file.roles[0].gpus")).toEqual(["roles", 0, "gpus"]);
  const [from, to] = spanOf(read(text).document, pathOf("file.slo.deadline"));
  expect(text.slice(from, to)).toBe("deadline: never");
});

test("typed numbers become numbers, except in text fields", () => {
  expect(valueOf("gpus", "4")).toBe(4);
  expect(valueOf("name", "4")).toBe("4");
  expect(valueOf("estimate", "2h")).toBe("2h");
  expect(valueOf("cpu", " ")).toBeUndefined();
  expect(partOf({ share: {} })).toBe("share");
});
