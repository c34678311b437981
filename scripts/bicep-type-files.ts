import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { AzureType, ObjectType } from "./azure-types.js";

const run = promisify(execFile);

/** A types.json of Azure/bicep-types-az: a list whose items refer to one another as `#/12`. */
interface Reference {
  readonly $ref: string;
}
interface BicepType {
  readonly $type: string;
  readonly name?: string;
  readonly value?: string;
  readonly body?: Reference;
  readonly itemType?: Reference;
  readonly elements?: readonly Reference[] | Readonly<Record<string, Reference>>;
  readonly discriminator?: string;
  readonly properties?: BicepProperties;
  readonly baseProperties?: BicepProperties;
  readonly additionalProperties?: Reference;
}
type BicepProperties = Readonly<Record<string, { readonly type: Reference; readonly flags: number }>>;

// biome-ignore lint/suspicious/noExplicitAny: the values are a template's own
type Value = any;

export interface TypeFiles {
  /** The files for a provider and a version: `microsoft.web`, `2024-11-01`. */
  find(provider: string, version: string): Promise<readonly (readonly BicepType[])[]>;
  versions(provider: string): Promise<readonly string[]>;
  readonly source: string;
}

/** Reads a clone of the repository: a folder with its files, or a git directory without any. */
export async function typeFilesIn(folder: string): Promise<TypeFiles> {
  const git = (...args: readonly string[]) =>
    run("git", ["-C", folder, ...args], { maxBuffer: 1e9 }).then(({ stdout }) => stdout);
  const names = (await git("ls-tree", "-r", "--name-only", "HEAD", "generated")).split("\n");
  const commit = (await git("rev-parse", "HEAD")).trim();
  const hasFiles = (await readdir(folder)).includes("generated");
  const text = (name: string) =>
    hasFiles ? readFile(join(folder, name), "utf8") : git("show", `HEAD:${name}`);
  const pathOf = (provider: string) =>
    new RegExp(`/${provider.replace(".", "\\.")}/([^/]+)/types\\.json$`, "i");
  const versionIn = (name: string, provider: string) => pathOf(provider).exec(name)?.[1];
  return {
    source: `Azure/bicep-types-az ${commit}`,
    versions: async (provider) =>
      [...new Set(names.flatMap((name) => versionIn(name, provider) ?? []))].sort(),
    find: (provider, version) =>
      Promise.all(
        names
          .filter((name) => versionIn(name, provider) === version)
          .map(async (name) => JSON.parse(await text(name)) as readonly BicepType[]),
      ),
  };
}

/** The type of a resource, as far as `bodies` use it. Undefined where the files do not have it. */
export async function typeOf(
  files: TypeFiles,
  type: string,
  version: string,
  bodies: readonly Value[],
): Promise<AzureType | undefined> {
  const name = `${type}@${version}`.toLowerCase();
  for (const list of await files.find(type.split("/")[0]!.toLowerCase(), version)) {
    const found = list.find((one) => one.$type === "ResourceType" && one.name?.toLowerCase() === name);
    if (found !== undefined) return recorded(list, found.body!, bodies);
  }
  return undefined;
}

const Required = 1;
const ReadOnly = 2;

function recorded(list: readonly BicepType[], { $ref }: Reference, values: readonly Value[]): AzureType {
  const type = list[Number($ref.slice(2))]!;
  switch (type.$type) {
    case "StringType":
      return "string";
    case "StringLiteralType":
      return { values: [type.value!] };
    case "IntegerType":
      return "int";
    case "BooleanType":
      return "bool";
    case "UnionType":
      return union((type.elements as readonly Reference[]).map((one) => recorded(list, one, values)));
    case "ArrayType":
      return {
        array: recorded(
          list,
          type.itemType!,
          values.flatMap((value) => (Array.isArray(value) ? value : [])),
        ),
      };
    case "ObjectType":
      return objectType(list, type.properties!, values, type.additionalProperties);
    case "DiscriminatedObjectType":
      return {
        by: type.discriminator!,
        common: objectType(list, type.baseProperties!, values).properties,
        kinds: Object.fromEntries(
          Object.entries(type.elements as Readonly<Record<string, Reference>>).map(([kind, element]) => [
            kind,
            recorded(
              list,
              element,
              values.filter((value) => value?.[type.discriminator!] === kind),
            ) as ObjectType,
          ]),
        ),
      };
    default:
      return "any";
  }
}

function union(parts: readonly AzureType[]): AzureType {
  const values = parts.flatMap((part) => (typeof part === "object" && "values" in part ? part.values : []));
  if (values.length === 0) return "any";
  return parts.every((part) => typeof part === "object" && "values" in part)
    ? { values }
    : { values, open: true };
}

function objectType(
  list: readonly BicepType[],
  properties: BicepProperties,
  values: readonly Value[],
  others?: Reference,
): ObjectType {
  const objects = values.filter((value) => typeof value === "object" && value !== null);
  const known = Object.entries(properties).map(([name, { type, flags }]) => {
    const used = objects.map((value) => value[name]).filter((value) => value !== undefined);
    const is =
      flags & ReadOnly ? ("read-only" as const) : flags & Required ? ("required" as const) : undefined;
    const recordedType = used.length === 0 ? "unused" : recorded(list, type, used);
    return [name, { type: recordedType, ...(is === undefined ? {} : { is }) }] as const;
  });
  const unnamed = objects.flatMap((value) => Object.entries(value).filter(([name]) => !(name in properties)));
  return {
    properties: Object.fromEntries(known),
    ...(others === undefined
      ? {}
      : {
          others: recorded(
            list,
            others,
            unnamed.map(([, value]) => value),
          ),
        }),
  };
}
