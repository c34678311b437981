/**
 * `npm run check:bicep -- FOLDER` records what Microsoft's published types say of every resource in infra/azure, at its own API
 * version, in test/infra/azure-types.json, and checks every deployment of test/infra/azure-variants.ts against it. `npm test` does
 * the check again, without a network. FOLDER is a clone: git clone --depth 1 https://github.com/Azure/bicep-types-az
 */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { plannedBodies } from "../test/infra/azure-variants.js";
import { type AzureType, type ObjectType, problemsOfResource } from "./azure-types.js";
import { type TypeFiles, typeFilesIn, typeOf } from "./bicep-type-files.js";

const record = join(fileURLToPath(new URL("../test/infra", import.meta.url)), "azure-types.json");

/** Properties of API versions that the files do not have yet, each with the package that documents it. */
const newer: Readonly<Record<string, readonly [path: readonly string[], AzureType]>> = {
  // FunctionAppConfig of @azure/arm-appservice 19.0.0, which speaks this version.
  "Microsoft.Web/sites@2025-05-01": [
    ["properties", "functionAppConfig"],
    {
      properties: {
        siteUpdateStrategy: {
          type: { properties: { type: { type: { values: ["Recreate", "RollingUpdate"] } } } },
        },
      },
    },
  ],
};

const [folder] = process.argv.slice(2);
if (folder === undefined) {
  console.error(
    "usage: npm run check:bicep -- FOLDER\n  git clone --depth 1 https://github.com/Azure/bicep-types-az FOLDER",
  );
  process.exit(2);
}
const files = await typeFilesIn(folder);
const types: Record<string, AzureType> = {};
let wrong = 0;
for (const [name, bodies] of [...(await plannedBodies())].sort(([a], [b]) => (a < b ? -1 : 1))) {
  const [type, version] = name.split("@") as [string, string];
  const found =
    (await typeOf(files, type, version, bodies)) ?? (await fromOlder(files, type, version, bodies));
  if (found === undefined) {
    wrong++;
    console.log(`WRONG ${name}: Microsoft publishes no such type`);
    continue;
  }
  types[name] = found;
  const problems = new Set(bodies.flatMap((body) => problemsOfResource(body, found)));
  wrong += problems.size;
  console.log(`${problems.size === 0 ? "ok   " : "WRONG"} ${name}: ${bodies.length} in all deployments`);
  for (const problem of problems) console.log(`      ${problem}`);
}
const lines = Object.entries(types).map(([name, type]) => `${JSON.stringify(name)}: ${JSON.stringify(type)}`);
await writeFile(record, `{"source": ${JSON.stringify(files.source)}, "types": {\n${lines.join(",\n")}\n}}\n`);
console.log(`${Object.keys(types).length} types checked, ${wrong} problems`);
process.exitCode = wrong === 0 ? 0 : 1;

/** The newest version before it, with what the version is known to add. */
async function fromOlder(
  { find, versions, source }: TypeFiles,
  type: string,
  version: string,
  bodies: readonly unknown[],
): Promise<AzureType | undefined> {
  const addition = newer[`${type}@${version}`];
  const older = (await versions(type.split("/")[0]!.toLowerCase())).filter(
    (one) => one < version && !one.endsWith("preview"),
  );
  const last = older.at(-1);
  if (addition === undefined || last === undefined) return undefined;
  const found = await typeOf({ find, versions, source }, type, last, bodies);
  if (found === undefined) return undefined;
  console.log(`      ${type}@${version} is newer than the files: ${last} and what it adds`);
  const [path, added] = addition;
  const target = path.reduce((one, name) => (one as ObjectType).properties[name]!.type, found) as ObjectType;
  Object.assign(target.properties, (added as ObjectType).properties);
  return found;
}
