// Checks a job file against its schema while it is typed. The service has further checks.
import { branches, type Json, type Path, type Schema } from "./schema";

export type Fault = "unknown" | "missing" | "choice" | "shape" | "number" | "empty";
export interface Problem {
  path: Path;
  fault: Fault;
  /** Valid input: names, choices or an example. */
  hint: string;
}

export function check(value: Json, root: Schema): Problem[] {
  return problems(value, root, root, []);
}

function problems(value: Json, schema: Schema, root: Schema, path: Path): Problem[] {
  const alternatives = branches(schema, root);
  const matching = alternatives.filter((branch) => isOfType(value, branch));
  if (matching.length === 0) return [{ path, fault: "shape", hint: hintOf(schema, alternatives) }];
  let best: Problem[] | null = null;
  for (const branch of matching) {
    const found = inside(value, branch, root, path);
    if (found.length === 0) return [];
    // Report the branch with the deepest problem: it is most likely the intended one.
    if (best === null || depth(found) > depth(best)) best = found;
  }
  return best!.map((problem) => (isVague(problem, path) ? { ...problem, hint: hintOf(schema, alternatives) || problem.hint } : problem));
}

/** The problem concerns the whole value, so the hint should cover all branches. */
function isVague(problem: Problem, path: Path): boolean {
  return problem.path.length === path.length && ["choice", "shape", "empty"].includes(problem.fault);
}

function inside(value: Json, schema: Schema, root: Schema, path: Path): Problem[] {
  if (schema.const !== undefined && value !== schema.const) return [{ path, fault: "choice", hint: String(schema.const) }];
  if (schema.enum && !schema.enum.includes(value)) return [{ path, fault: "choice", hint: schema.enum.join(", ") }];
  if (typeof value === "string") return ofText(value, schema, path);
  if (typeof value === "number") return ofNumber(value, schema, path);
  if (Array.isArray(value)) return ofList(value, schema, root, path);
  if (value !== null && typeof value === "object") return ofObject(value, schema, root, path);
  return [];
}

function ofText(value: string, schema: Schema, path: Path): Problem[] {
  if (value.length < (schema.minLength ?? 0)) return [{ path, fault: "empty", hint: "" }];
  if (schema.pattern && !new RegExp(schema.pattern, "u").test(value)) return [{ path, fault: "shape", hint: "" }];
  return [];
}

function ofNumber(value: number, schema: Schema, path: Path): Problem[] {
  const { minimum = -Infinity, maximum = Infinity, exclusiveMinimum = -Infinity } = schema;
  if (value >= minimum && value <= maximum && value > exclusiveMinimum) return [];
  return [{ path, fault: "number", hint: `${minimum > -Infinity ? minimum : exclusiveMinimum} … ${maximum}` }];
}

function ofList(value: Json[], schema: Schema, root: Schema, path: Path): Problem[] {
  if (value.length < (schema.minItems ?? 0)) return [{ path, fault: "empty", hint: "" }];
  return schema.items ? value.flatMap((item, at) => problems(item, schema.items!, root, [...path, at])) : [];
}

function ofObject(value: Record<string, Json>, schema: Schema, root: Schema, path: Path): Problem[] {
  const missing = (schema.required ?? []).filter((name) => !(name in value));
  const found: Problem[] = missing.map((name) => ({ path, fault: "missing", hint: name }));
  for (const [name, member] of Object.entries(value)) {
    const own = schema.properties?.[name] ?? schema.additionalProperties;
    if (own === false) found.push({ path: [...path, name], fault: "unknown", hint: like(name, schema) });
    else if (typeof own === "object" && !(member === null && isOpen(own))) found.push(...problems(member, own, root, [...path, name]));
  }
  return [...found, ...oneOfRequired(value, schema, path)];
}

/** Rules of the form "at least one of these is required". */
function oneOfRequired(value: Record<string, Json>, schema: Schema, path: Path): Problem[] {
  const rules = [...(schema.allOf ?? []), ...(schema.properties && schema.anyOf ? [{ anyOf: schema.anyOf }] : [])];
  return rules.flatMap((rule) => {
    const sets = (rule.anyOf ?? []).map((branch) => branch.required ?? []);
    if (sets.length === 0 || sets.some((names) => names.every((name) => name in value))) return [];
    return [{ path, fault: "missing" as const, hint: sets.flat().join(", ") }];
  });
}

/** Whether a field may be empty while it is being typed. */
function isOpen(schema: Schema): boolean {
  return schema.type === undefined;
}

function isOfType(value: Json, schema: Schema): boolean {
  if (schema.const !== undefined) return typeof value === typeof schema.const;
  const types = schema.type === undefined ? [] : [schema.type].flat();
  return types.length === 0 || types.some((type) => isA(value, type));
}

function isA(value: Json, type: string): boolean {
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  if (type === "object") return value !== null && typeof value === "object" && !Array.isArray(value);
  if (type === "integer") return Number.isInteger(value);
  return typeof value === type;
}

function hintOf(schema: Schema, alternatives: readonly Schema[]): string {
  const choices = alternatives.flatMap((branch) => branch.enum ?? []);
  if (choices.length > 0) return choices.join(", ");
  return (schema.examples ?? []).slice(0, 3).map((example) => (typeof example === "string" ? example : JSON.stringify(example))).join(", ");
}

function depth(found: readonly Problem[]): number {
  return Math.max(...found.map((problem) => problem.path.length));
}

/** The known name that is most similar. */
function like(name: string, schema: Schema): string {
  const names = Object.keys(schema.properties ?? {});
  return names.find((known) => known.startsWith(name) || name.startsWith(known)) ?? names.find((known) => known[0] === name[0]) ?? "";
}
