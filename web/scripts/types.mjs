// Writes src/api/schema.d.ts: TypeScript types of the API, from the service's OpenAPI description.
// Needs the project's Python environment (`make setup`), but no running service.
import { execFileSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "..", "..");
const python = join(root, ".venv", "bin", "python");
const output = execFileSync(existsSync(python) ? python : "python3", [join(here, "openapi.py")], { maxBuffer: 1 << 28 });
const { mark, schema } = JSON.parse(output.toString());
// All operations share the same error responses (src/api/errors.ts). Repeated for each, they would be most of the file.
for (const operations of Object.values(schema.paths))
  for (const operation of Object.values(operations))
    for (const status of Object.keys(operation.responses ?? {})) if (status >= "300") delete operation.responses[status];
const head = `// Made by \`npm run types\` from the API's description. Do not edit.\n// mark: ${mark}\n\n`;
writeFileSync(join(here, "..", "src", "api", "schema.d.ts"), head + astToString(await openapiTS(schema)));
