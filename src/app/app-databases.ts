import { InvalidArgumentError } from "../errors.js";
import type { Database } from "../sql/dialect.js";
import { whyNotBackedUp } from "../sql/why-not-backed-up.js";
import type { App } from "./create-app.js";

/** The databases of an app, each once: tenants may share one. Opens no connection. */
export async function appDatabases({
  db,
  tenants,
}: Pick<App, "db" | "tenants">): Promise<readonly Database[]> {
  if (tenants === undefined) return [db];
  const found = new Map<string, Database>();
  for (const key of await tenants.distinctStores()) {
    const { db: own } = await tenants.stores(key);
    found.set(own.id, own);
  }
  return [...found.values()];
}

export interface BackedUpDatabases {
  readonly databases: readonly Database[];
  /** Why the others are left out. */
  readonly notes: readonly string[];
}

/** Tenants may be on several kinds of databases; those in SQLite files are backed up. Refused when there is none. */
export function backedUpDatabases(all: readonly Database[]): BackedUpDatabases {
  const notes = all.flatMap((database) => whyNotBackedUp(database) ?? []);
  const databases = all.filter((database) => whyNotBackedUp(database) === undefined);
  if (databases.length === 0)
    throw new InvalidArgumentError(notes.join("\n") || "There is no tenant, so there is nothing to back up.");
  return { databases, notes };
}
