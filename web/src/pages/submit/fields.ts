// Fields of the form: those that most jobs need. The others are set in YAML.
import type { Json, Path } from "./schema";

export type FieldName =
  | "name" | "command" | "gpus" | "share.memory" | "share.sm" | "count" | "cpu" | "memory" | "gpu_model" | "estimate"
  | "limit" | "priority" | "queue" | "slo.deadline" | "retries" | "app" | "workdir" | "image" | "tenant";
export type Part = "whole" | "share" | "none";

export interface FormField {
  name: FieldName;
  kind: "text" | "lines" | "choice";
  /** Only shown for this kind of GPU request. */
  part?: Part;
  isForAdmin?: boolean;
}

export const MAIN: readonly FormField[] = [
  { name: "name", kind: "text" },
  { name: "command", kind: "lines" },
];
export const RESOURCES: readonly FormField[] = [
  { name: "gpus", kind: "text", part: "whole" },
  { name: "share.memory", kind: "text", part: "share" },
  { name: "share.sm", kind: "text", part: "share" },
  { name: "count", kind: "text" },
  { name: "cpu", kind: "text" },
  { name: "memory", kind: "text" },
  { name: "gpu_model", kind: "text", part: "whole" },
];
export const WHEN: readonly FormField[] = [
  { name: "estimate", kind: "text" },
  { name: "limit", kind: "text" },
  { name: "slo.deadline", kind: "text" },
  { name: "priority", kind: "choice" },
];
export const MORE: readonly FormField[] = [
  { name: "queue", kind: "text" },
  { name: "tenant", kind: "text", isForAdmin: true },
  { name: "app", kind: "text" },
  { name: "retries", kind: "text" },
  { name: "workdir", kind: "text" },
  { name: "image", kind: "text" },
];
export const ALL = [...MAIN, ...RESOURCES, ...WHEN, ...MORE];

export function pathOfField(name: FieldName): Path {
  return name.split(".");
}

const TEXTS: readonly FieldName[] = ["name", "command", "gpu_model", "queue", "tenant", "app", "workdir", "image"];

/** The value to store: numbers as numbers, except in text fields. `undefined` for empty input. */
export function valueOf(name: FieldName, typed: string): Json | undefined {
  if (typed.trim() === "") return undefined;
  if (TEXTS.includes(name)) return typed;
  return /^\d+(\.\d+)?$/.test(typed.trim()) ? Number(typed) : typed.trim();
}

/** The value as shown in the form, or null if it can only be edited in YAML. */
export function shownOf(value: Json | undefined): string | null {
  if (value === undefined || value === null) return "";
  if (Array.isArray(value)) return value.every((item) => typeof item !== "object") ? value.join(" ") : null;
  return typeof value === "object" ? null : String(value);
}

export function partOf(data: Record<string, Json>): Part {
  if (data.share !== undefined) return "share";
  return data.gpus === undefined ? "none" : "whole";
}
