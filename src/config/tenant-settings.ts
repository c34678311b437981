import * as z from "zod/mini";
import en from "zod/v4/locales/en.js";
import { safeReason } from "../base/logger.js";
import { InvalidArgumentError } from "../errors.js";
import { identifierRule, isIdentifier } from "../sql/names.js";
import { type AllowedDatabases, requireAllowed } from "./allowed-databases.js";
import { databaseUrlProblem, problemOf } from "./database-url.js";
import { isSecretReference, type SecretReference } from "./secret-reference.js";

const identifier = z.string().check(z.refine(isIdentifier, { error: identifierRule }));

const id = z.string().check(
  z.minLength(1),
  z.maxLength(255),
  z.refine((value) => value.isWellFormed() && !value.includes("\0") && !value.endsWith(" "), {
    error: "must be well-formed, without NUL and without a space at the end",
  }),
);

const tables = {
  schema: z.optional(identifier),
  inbox: z.optional(identifier),
  outbox: z.optional(identifier),
};

const tenant = z.strictObject({
  id,
  /** A URL, or a reference to where it is kept. */
  database: z.union(
    [z.string(), z.custom<SecretReference>(isSecretReference)],
    "must be a database URL or a reference to a secret",
  ),
  ...tables,
});

/** A discovered tenant has no reference: the discovery has resolved it. */
const discoveredTenant = z.strictObject({ id, database: z.string(), ...tables });

type TenantSettings = z.infer<typeof tenant>;

/** Checks tenants from configuration. One error lists all problems, and `others` with them. */
export const checkTenants = (
  value: unknown,
  what: string,
  others: readonly string[] = [],
): readonly TenantSettings[] => {
  const urls = listOf(value).flatMap((one, index) => urlProblem(one, `${index}.database`));
  return validated(z.array(tenant), value, what, [...urls, ...others]);
};

/** Returns what is wrong with one discovered tenant, or undefined. The other tenants can still be served. */
export const tenantProblem = (
  value: unknown,
  {
    anyUrl = false,
    allow,
  }: { readonly anyUrl?: boolean; readonly allow?: AllowedDatabases | undefined } = {},
): string | undefined => {
  try {
    return problemOf(() => {
      const urls = anyUrl ? [] : urlProblem(value, "database");
      const { database } = validated(discoveredTenant, value, "tenant", urls);
      if (allow !== undefined) requireAllowed(database, allow);
    });
  } catch (error) {
    return safeReason(error);
  }
};

export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** Checked here, because a schema with a union says only that no alternative fits. */
function urlProblem(value: unknown, where: string): readonly string[] {
  const { database } = Object(value) as Partial<TenantSettings>;
  const problem = typeof database === "string" ? databaseUrlProblem(database) : undefined;
  return problem === undefined ? [] : [`${where}: ${problem.replace(/\.$/, "")}`];
}

/** zod/mini has no error texts of its own. They are passed with each call, so that the user's zod keeps its own language. */
const inEnglish: z.core.$ZodErrorMap = (issue) => en().localeError(issue);

/**
 * Returns the value as the schema parses it, or throws one error that lists all problems with their paths. The error
 * quotes no value. `others` are problems that the schema cannot express.
 */
export function validated<Schema extends z.ZodMiniType>(
  schema: Schema,
  value: unknown,
  what: string,
  others: readonly string[] = [],
): z.output<Schema> {
  const result = schema.safeParse(value, { error: inEnglish });
  if (result.success && others.length === 0) return result.data;
  const problems = (result.error?.issues ?? []).map(({ path, message }) =>
    path.length === 0 ? message : `${path.map(String).join(".")}: ${message}`,
  );
  throw new InvalidArgumentError(`${what}: ${[...problems, ...others].join("; ")}.`);
}
