// The job file as text. The text is authoritative: the form reads from it and writes to it.
import { type Document, isMap, isScalar, isSeq, parseDocument } from "yaml";
import type { Json, Path } from "./schema";

export const FIRST_TEXT = `version: 1
name: my-job
gpus: 1
command: |
  nvidia-smi
  sleep 60
`;

export interface Mark {
  from: number;
  to: number;
  text: string;
}
export interface Reading {
  document: Document;
  data: Record<string, Json>;
  /** YAML syntax errors. */
  faults: Mark[];
}

export function read(text: string): Reading {
  const document = parseDocument(text, { prettyErrors: false });
  const faults = document.errors.map((error) => ({ from: error.pos[0], to: error.pos[1], text: error.message }));
  const data = faults.length === 0 ? (document.toJS({ maxAliasCount: 100 }) as Json) : null;
  const isFields = data !== null && typeof data === "object" && !Array.isArray(data);
  return { document, data: isFields ? data : {}, faults };
}

/** The text with one field changed; comments and everything else stay. `undefined` removes the field. */
export function withField(text: string, path: Path, value: Json | undefined): string {
  const document = parseDocument(text);
  if (document.errors.length > 0) return text;
  if (value === undefined) {
    document.deleteIn(path);
    const parent = path.slice(0, -1);
    const left = parent.length > 0 ? document.getIn(parent) : null;
    if (isMap(left) && left.items.length === 0) document.deleteIn(parent);
  } else {
    document.setIn(path, value);
  }
  return document.toString({ lineWidth: 0 });
}

export function valueAt(data: Json | undefined, path: Path): Json | undefined {
  let found: Json | undefined = data;
  for (const step of path) {
    if (found === null || typeof found !== "object") return undefined;
    found = (found as Record<string | number, Json>)[step];
  }
  return found;
}

/** Path of a field in the service's notation, "roles[0].gpus". */
export function pathOf(field: string): Path {
  const inside = field.replace(/^file\.?/, "");
  const steps = inside.match(/[^.[\]]+/g) ?? [];
  return steps.map((step) => (/^\d+$/.test(step) ? Number(step) : step));
}

/** Position of a path in the text, or of its nearest existing parent. */
export function spanOf(document: Document, path: Path): [number, number] {
  let node: unknown = document.contents;
  let span: [number, number] = [0, 0];
  for (const step of path) {
    if (isMap(node)) {
      const pair = node.items.find((entry) => isScalar(entry.key) && String(entry.key.value) === String(step));
      if (!pair) return span;
      const key = (pair.key as { range?: number[] }).range;
      const value = (pair.value as { range?: number[] } | null)?.range;
      if (key) span = [key[0]!, isScalar(pair.value) && value ? value[1]! : key[1]!];
      node = pair.value;
    } else if (isSeq(node)) {
      node = node.items[Number(step)];
      const range = (node as { range?: number[] } | undefined)?.range;
      if (!range) return span;
      span = [range[0]!, range[1]!];
    } else return span;
  }
  return span;
}
