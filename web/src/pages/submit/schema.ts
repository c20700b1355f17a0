// The job file's schema, as far as an editor needs it.
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Path = readonly (string | number)[];
export interface Schema {
  type?: string | string[];
  $ref?: string;
  $defs?: Record<string, Schema>;
  enum?: Json[];
  const?: Json;
  anyOf?: Schema[];
  allOf?: Schema[];
  properties?: Record<string, Schema>;
  additionalProperties?: boolean | Schema;
  required?: string[];
  items?: Schema;
  description?: string;
  examples?: Json[];
  pattern?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  minLength?: number;
  minItems?: number;
  maxItems?: number;
}

/** With what it refers to filled in. */
export function resolved(schema: Schema, root: Schema): Schema {
  if (!schema.$ref) return schema;
  const name = schema.$ref.split("/").at(-1)!;
  return { ...root.$defs?.[name], ...schema, $ref: undefined };
}

/** The schema itself, and whatever it allows instead of itself. */
export function branches(schema: Schema, root: Schema): Schema[] {
  const one = resolved(schema, root);
  return one.anyOf && !one.properties ? one.anyOf.flatMap((other) => branches(other, root)) : [one];
}

/** What may stand at a path; nothing where the schema does not say. */
export function schemaAt(root: Schema, path: Path): Schema | null {
  let found: Schema | null = root;
  for (const step of path) {
    found = found && below(found, step, root);
    if (!found) return null;
  }
  return found && resolved(found, root);
}

function below(schema: Schema, step: string | number, root: Schema): Schema | null {
  for (const one of branches(schema, root)) {
    if (typeof step === "number") {
      if (one.items) return one.items;
    } else {
      const own = one.properties?.[step];
      if (own) return own;
      if (typeof one.additionalProperties === "object") return one.additionalProperties;
    }
  }
  return null;
}
