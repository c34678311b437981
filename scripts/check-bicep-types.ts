/**
 * `npm run check:bicep` checks every property in infra/azure against Microsoft's catalogue of Azure's resource types;
 * `npm run check:bicep -- Microsoft.Web Microsoft.Sql` only the types of these providers. The
 * catalogue has 137 MB, so it is fetched on demand and is not a dependency of this project.
 */
import { execFile } from "node:child_process";
import { tmpdir } from "node:os";
import { promisify } from "node:util";
import { type BicepValue, readBicepFiles } from "./bicep-files.js";

const run = promisify(execFile);
const catalogue = "@azure/mcp@2.0.5";

interface Property {
  readonly name: string;
  readonly type: string;
  readonly flags?: string;
}

interface ObjectType {
  readonly $type: string;
  readonly name: string;
  readonly properties?: readonly Property[];
  readonly additionalProperties?: unknown;
}

interface Schema {
  readonly body: ObjectType;
  readonly types: ReadonlyMap<string, ObjectType>;
}

/** Returns undefined for a type that the catalogue does not have. */
async function schemaOf(type: string): Promise<Schema | undefined> {
  const command = ["exec", "--yes", `--package=${catalogue}`, "--", "azmcp", "bicepschema", "get"];
  const { stdout } = await run("npm", [...command, "--resource-type", type], {
    cwd: tmpdir(),
    maxBuffer: 1e8,
    shell: process.platform === "win32",
  }).catch((error: { stdout?: string }) => {
    if (/not supported|not found/.test(error.stdout ?? "")) return { stdout: "" };
    throw error;
  });
  if (stdout === "") return undefined;
  const answer = JSON.parse(stdout.slice(stdout.indexOf("{"))) as {
    results: { BicepSchemaResult: (ObjectType & { bodyType?: ObjectType })[] };
  };
  const all = answer.results.BicepSchemaResult;
  const body = all.find(({ bodyType }) => bodyType !== undefined)?.bodyType;
  if (body === undefined) throw new Error(`The catalogue does not know ${type}.`);
  return { body, types: new Map(all.map((one) => [one.name, one])) };
}

/** Properties of the language Bicep, which no type lists. */
const ofBicep = new Set(["parent", "scope", "dependsOn"]);

/** Properties of API versions that are newer than the catalogue's. */
const newer = new Set([".properties.functionAppConfig.siteUpdateStrategy"]);

function problemsIn(value: BicepValue, type: ObjectType | undefined, schema: Schema, path: string): string[] {
  if (typeof value !== "object" || Array.isArray(value)) return [];
  if (type?.properties === undefined || type.properties.length === 0) return []; // any names: tags, identities
  const known = new Map(type.properties.map((property) => [property.name, property]));
  const missing = type.properties.filter(
    ({ name, flags = "" }) => flags.includes("Required") && !(name in (value as object)),
  );
  const problems = missing.map(({ name }) => `${path}.${name} is missing`);
  for (const [name, inner] of Object.entries(value)) {
    const property = known.get(name);
    const at = `${path}.${name}`;
    if ((path === "" && ofBicep.has(name)) || newer.has(at)) continue;
    if (property === undefined) {
      if (type.additionalProperties === undefined) problems.push(`${at} is not a property of ${type.name}`);
    } else if (property.flags?.includes("ReadOnly")) problems.push(`${at} cannot be written`);
    else problems.push(...problemsOf(inner, property.type, schema, at));
  }
  return problems;
}

function problemsOf(value: BicepValue, typeName: string, schema: Schema, path: string): string[] {
  if (Array.isArray(value)) {
    const item = typeName.replace(/\[\]$/, "");
    return value.flatMap((one, index) => problemsOf(one, item, schema, `${path}[${index}]`));
  }
  return problemsIn(value, schema.types.get(typeName), schema, path);
}

const resources = (await readBicepFiles())
  .flatMap((file) => file.resources)
  .filter(({ existing }) => !existing);
const providers = process.argv.slice(2);
const isAsked = (type: string) => providers.length === 0 || providers.includes(type.split("/")[0]!);
const types = [...new Set(resources.map(({ type }) => type))].filter(isAsked).sort();
let wrong = 0;
let unknown = 0;
for (const type of types) {
  const schema = await schemaOf(type);
  if (schema === undefined) {
    unknown++;
    console.log(`not checked, because the catalogue does not have it: ${type}`);
    continue;
  }
  for (const { file, symbol, body } of resources.filter((resource) => resource.type === type)) {
    const problems = problemsIn(body, schema.body, schema, "");
    wrong += problems.length;
    console.log(`${problems.length === 0 ? "ok   " : "WRONG"} ${file} ${symbol}: ${type}`);
    for (const problem of problems) console.log(`      ${problem.replace(/^\./, "")}`);
  }
}
console.log(`${types.length - unknown} of ${types.length} types checked, ${wrong} problems`);
process.exitCode = wrong === 0 ? 0 : 1;
