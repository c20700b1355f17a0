// The parts of JSON Schema that the editor uses.
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

/** The schema with its `$ref` resolved. */
export function resolved(schema: Schema, root: Schema): Schema {
  if (!schema.$ref) return schema;
  const name = schema.$ref.split("/").at(-1)!;
  return { ...root.$defs?.[name], ...schema, $ref: undefined };
}

/** The alternatives of a schema (`anyOf`), or the schema itself. */
export function branches(schema: Schema, root: Schema): Schema[] {
  const target = resolved(schema, root);
  return target.anyOf && !target.properties ? target.anyOf.flatMap((other) => branches(other, root)) : [target];
}

/** The schema at a path, or null if the schema does not define it. */
export function schemaAt(root: Schema, path: Path): Schema | null {
  let found: Schema | null = root;
  for (const step of path) {
    found = found && below(found, step, root);
    if (!found) return null;
  }
  return found && resolved(found, root);
}

function below(schema: Schema, step: string | number, root: Schema): Schema | null {
  for (const branch of branches(schema, root)) {
    if (typeof step === "number") {
      if (branch.items) return branch.items;
    } else {
      const own = branch.properties?.[step];
      if (own) return own;
      if (typeof branch.additionalProperties === "object") return branch.additionalProperties;
    }
  }
  return null;
}
