import * as z from "zod/mini";
import type { InvalidArgumentError } from "../errors.js";
import { identifierRule, isIdentifier } from "../sql/names.js";
import { type AllowedDatabases, notAllowed } from "./allowed-databases.js";
import { databaseUrlProblem } from "./database-url.js";
import { isSecretReference, type SecretReference } from "./secret-reference.js";
import { validated } from "./validated.js";

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

export type TenantSettings = z.infer<typeof tenant>;

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
export function tenantProblem(
  value: unknown,
  {
    anyUrl = false,
    allow,
  }: { readonly anyUrl?: boolean; readonly allow?: AllowedDatabases | undefined } = {},
): string | undefined {
  try {
    validated(discoveredTenant, value, "tenant", anyUrl ? [] : urlProblem(value, "database"));
    return allow === undefined ? undefined : notAllowed((value as TenantSettings).database as string, allow);
  } catch (error) {
    return (error as InvalidArgumentError).message;
  }
}

export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** Checked here, because a schema with a union says only that no alternative fits. */
function urlProblem(value: unknown, where: string): readonly string[] {
  const { database } = Object(value) as Partial<TenantSettings>;
  const problem = typeof database === "string" ? databaseUrlProblem(database) : undefined;
  return problem === undefined ? [] : [`${where}: ${problem.replace(/\.$/, "")}`];
}
