import { appContext } from "../../app/app-context.js";
import type { AppDefinition } from "../../app/app-definition.js";
import { createCatalogueTable } from "../../app/prepare-databases.js";
import type { Environment } from "../../config/environment.js";
import type { Database } from "../../sql/dialect.js";
import type { MigrateResult } from "../../sql/migrate.js";
import { serverOf } from "../../tenants/connections/server-of.js";
import { grantFunctionsUser } from "./functions-user.js";
import { awsSecrets, isWithoutValue, putSecret } from "./secrets-manager.js";

/**
 * Makes the table of tenants in the owner's database and fills its secret, where the stack has one that nobody has filled. A
 * catalogue of your own, elsewhere, has a value already.
 */
export async function makeCatalogue(
  db: Database,
  secret: string | undefined,
  functionsUrl: () => Promise<string>,
): Promise<boolean> {
  if (secret === undefined || !(await isWithoutValue(secret))) return false;
  await createCatalogueTable(db);
  await putSecret(secret, await functionsUrl());
  return true;
}

interface Owner {
  /** With its user. */
  readonly url: string;
  readonly kind: "postgres" | "sqlserver";
  readonly script: string;
}

/**
 * Migrates the databases of all tenants: as the owner those on the owner's server, and with their own users those elsewhere, which
 * must own their tables then. A tenant that fails does not stop the others; the error at the end names it.
 */
export async function migrateTenantDatabases(
  definition: AppDefinition,
  environment: Environment,
  owner: Owner,
): Promise<MigrateResult> {
  const { tenants } = appContext(definition, {
    environment,
    resolveSecret: awsSecrets(environment.env),
    signInAs: (url) => (serverOf(url) === serverOf(owner.url) ? ownersUrl(url, owner.url) : url),
  });
  if (tenants === undefined) return { applied: [], warnings: [] };
  try {
    await tenants.stores.refresh();
    const result = await tenants.migrate();
    for (const id of await tenants.stores.distinctStores()) {
      const { db, tables } = await tenants.stores.stores(id);
      if (await isOwner(db, owner)) await grantFunctionsUser(db, { ...owner, tables, password: undefined });
    }
    return result;
  } finally {
    await tenants.close();
  }
}

/** The tenant's database, as the owner. */
function ownersUrl(tenant: string, owner: string): string {
  const target = new URL(owner);
  const [, named] = /(?:^|;)\s*(?:database|initial catalog)\s*=\s*"?([^;"]+)/i.exec(tenant) ?? [];
  target.pathname = named === undefined ? new URL(tenant).pathname : `/${encodeURIComponent(named.trim())}`;
  return target.href;
}

/** Elsewhere the functions sign in as the user that migrated, who needs no grant. */
async function isOwner(db: Database, { url, kind }: Owner): Promise<boolean> {
  const text = `select ${kind === "postgres" ? "current_user" : "suser_name()"} as name`;
  const [row] = await db.driver.query({ name: "who", text, unprepared: true }, {});
  const username = decodeURIComponent(new URL(url).username);
  return String(row?.name).toLowerCase() === username.toLowerCase();
}
