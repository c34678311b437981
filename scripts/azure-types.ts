/** What a template may write, after the types that Microsoft publishes for Bicep (github.com/Azure/bicep-types-az). */
export type AzureType =
  | "string"
  | "int"
  | "bool"
  | "any"
  /** A property that no template writes. Its name is known, and its type was not recorded. */
  | "unused"
  | { readonly values: readonly string[]; readonly open?: true }
  | { readonly array: AzureType }
  | ObjectType
  | {
      readonly by: string;
      readonly common: Properties;
      readonly kinds: Readonly<Record<string, ObjectType>>;
    };

export interface ObjectType {
  readonly properties: Properties;
  /** Of properties with any other name: tags, settings. */
  readonly others?: AzureType;
}

type Properties = Readonly<
  Record<string, { readonly type: AzureType; readonly is?: "required" | "read-only" }>
>;

/** The record in test/infra/azure-types.json. */
export interface AzureTypes {
  readonly source: string;
  /** By `type@version`. */
  readonly types: Readonly<Record<string, AzureType>>;
}

/** Properties of the language Bicep, which no type lists. */
const ofBicep = new Set(["parent", "scope", "dependsOn"]);

// biome-ignore lint/suspicious/noExplicitAny: the values are a template's own
type Value = any;

/** What is wrong with a resource, as a deployment would send it. */
export const problemsOfResource = (body: Value, type: AzureType): readonly string[] =>
  problems(Object.fromEntries(Object.entries(body).filter(([name]) => !ofBicep.has(name))), type, "");

function problems(value: Value, type: AzureType, path: string): readonly string[] {
  if (value === null || value === undefined || type === "any" || isKnownLater(value)) return [];
  const wrong = (what: string): readonly string[] => [`${path.slice(1)} ${what}`];
  if (type === "unused") return wrong("is new here: run npm run check:bicep");
  if (typeof type === "string") {
    const found = { string: "string", int: "number", bool: "boolean" }[type];
    return typeof value === found ? [] : wrong(`must be ${type}`);
  }
  if ("values" in type) {
    if (typeof value !== "string") return wrong("must be a text");
    return type.open || type.values.includes(value) ? [] : wrong(`must be one of ${type.values.join(", ")}`);
  }
  if ("array" in type) {
    if (!Array.isArray(value)) return wrong("must be a list");
    return value.flatMap((one, index) => problems(one, type.array, `${path}[${index}]`));
  }
  if (typeof value !== "object" || Array.isArray(value)) return wrong("must be an object");
  if (!("by" in type)) return problemsInObject(value, type, path);
  const kind = type.kinds[value[type.by]];
  if (kind === undefined)
    return wrong(`has no ${type.by} that is one of ${Object.keys(type.kinds).join(", ")}`);
  return problemsInObject(value, { properties: { ...type.common, ...kind.properties } }, path);
}

function problemsInObject(value: Value, { properties, others }: ObjectType, path: string): readonly string[] {
  const missing = Object.entries(properties)
    .filter(([name, { is }]) => is === "required" && value[name] === undefined)
    .map(([name]) => `${path.slice(1)}.${name} is missing`);
  const ofEach = Object.entries<Value>(value).flatMap(([name, inner]) => {
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
    const at = `${path}.${name}`;
    if (property?.is === "read-only") return [`${at.slice(1)} is written by Azure alone`];
    if (property !== undefined) return problems(inner, property.type, at);
    return others === undefined ? [`${at.slice(1)} is not a property`] : problems(inner, others, at);
  });
  return [...missing, ...ofEach];
}

/** A value that only the deployment knows: `<webhookIdentity.clientId>`. */
const isKnownLater = (value: Value): boolean =>
  (typeof value === "object" && "path" in value && String(value).startsWith("<")) ||
  (typeof value === "string" && value.startsWith("<"));
