// Completions at a position in a job file, from the schema.
import { branches, type Path, type Schema, schemaAt } from "./schema";

export interface CursorContext {
  kind: "key" | "value";
  /** Path of the mapping for a key, of the field for a value. */
  path: Path;
  /** Start of the word being typed. */
  from: number;
  /** Names that the mapping already contains. */
  used: ReadonlySet<string>;
}
export interface Option {
  label: string;
  insert: string;
  info: string;
}

/** Uses the indentation, so that it works while the text is not valid YAML. */
export function contextAt(text: string, at: number): CursorContext | null {
  const lines = text.slice(0, at).split("\n");
  const now = lines.at(-1)!;
  if (/^\s*#/.test(now)) return null;
  const value = /^((?:\s|- )*)([\w-]+):\s+(\S*)$/.exec(now);
  const key = /^((?:\s|- )*)([\w-]*)$/.exec(now);
  const item = /^(\s*)- (\S*)$/.exec(now);
  if (value) return { kind: "value", path: [...above(lines, value[1]!), value[2]!], from: at - value[3]!.length, used: new Set() };
  if (item && !key) return { kind: "value", path: above(lines, item[1]! + "- "), from: at - item[2]!.length, used: new Set() };
  if (!key) return null;
  return { kind: "key", path: above(lines, key[1]!), from: at - key[2]!.length, used: siblingKeys(text, at, key[1]!.length) };
}

export function optionsAt(context: CursorContext, root: Schema): Option[] {
  const schema = schemaAt(root, context.path);
  if (!schema) return [];
  return context.kind === "key" ? keys(schema, root, context.used) : values(schema, root);
}

function keys(schema: Schema, root: Schema, used: ReadonlySet<string>): Option[] {
  const found = branches(schema, root).flatMap((branch) => Object.entries(branch.properties ?? {}));
  return found
    .filter(([name]) => !used.has(name))
    .map(([name, of]) => ({ label: name, insert: isBlock(of, root) ? `${name}:\n  ` : `${name}: `, info: of.description ?? "" }));
}

function values(schema: Schema, root: Schema): Option[] {
  const all = branches(schema, root);
  const fixed = all.flatMap((branch) => [...(branch.enum ?? []), ...(branch.const === undefined ? [] : [branch.const])]);
  const both = all.some((branch) => branch.type === "boolean") ? [true, false] : [];
  const examples = (schema.examples ?? []).filter((example) => typeof example !== "object");
  const labels = new Set([...fixed, ...both, ...examples].map(String));
  return [...labels].map((label) => ({ label, insert: label, info: "" }));
}

function isBlock(schema: Schema, root: Schema): boolean {
  const all = branches(schema, root);
  return all.length > 0 && all.every((branch) => branch.type === "object");
}

/** The path given by the lines above. */
function above(lines: readonly string[], start: string): Path {
  const path: (string | number)[] = [];
  let indent = start.length;
  if (start.includes("- ")) {
    path.unshift(0);
    indent = start.indexOf("- ") + 1; // a list may have the same indentation as its key
  }
  for (let at = lines.length - 2; at >= 0 && indent > 0; at--) {
    const found = /^(\s*)(- )?([\w-]+):\s*$/.exec(lines[at]!);
    const depth = found ? found[1]!.length + (found[2]?.length ?? 0) : /^(\s*)/.exec(lines[at]!)![1]!.length;
    const item = /^(\s*)- /.exec(lines[at]!);
    if (item && item[1]!.length + 2 === indent && !found) {
      path.unshift(0);
      indent = item[1]!.length + 1;
    } else if (found && depth < indent) {
      path.unshift(found[3]!);
      indent = depth;
      if (found[2]) {
        path.unshift(0);
        indent = found[1]!.length + 1;
      }
    }
  }
  return path;
}

function siblingKeys(text: string, at: number, indent: number): Set<string> {
  const found = new Set<string>();
  const lines = text.split("\n");
  const here = text.slice(0, at).split("\n").length - 1;
  const take = (line: string): boolean => {
    const depth = /^(?:\s|- )*/.exec(line)![0].length;
    if (line.trim() !== "" && depth < indent) return false;
    const name = /^(?:\s|- )*([\w-]+):/.exec(line);
    if (name && depth === indent) found.add(name[1]!);
    return true;
  };
  for (let line = here - 1; line >= 0 && take(lines[line]!); line--);
  for (let line = here + 1; line < lines.length && take(lines[line]!); line++);
  return found;
}
