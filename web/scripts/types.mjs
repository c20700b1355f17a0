// Writes src/api/schema.d.ts: the API's types, from the description that the service itself gives of it.
// Needs the project's Python (`make setup`); no service has to run.
import { execFileSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "..", "..");
const python = join(root, ".venv", "bin", "python");
const printed = execFileSync(existsSync(python) ? python : "python3", [join(here, "openapi.py")], { maxBuffer: 1 << 28 });
const { mark, schema } = JSON.parse(printed.toString());
// Every operation may answer with the same errors (src/api/errors.ts); written out each time they are most of the file.
for (const operations of Object.values(schema.paths))
  for (const operation of Object.values(operations))
    for (const status of Object.keys(operation.responses ?? {})) if (status >= "300") delete operation.responses[status];
const head = `// Made by \`npm run types\` from the API's description. Do not edit.\n// mark: ${mark}\n\n`;
writeFileSync(join(here, "..", "src", "api", "schema.d.ts"), head + astToString(await openapiTS(schema)));
