import { openDatabase } from "../config/database-url.js";
import { InvalidArgumentError } from "../errors.js";
import type { Database } from "../sql/dialect.js";
import type { HttpInboxStoreOptions } from "./client/http-inbox-store.js";
import { checkAll, type LeasingInboxStore, requireOneOf } from "./inbox-store.js";
import type { MongoInboxStoreOptions } from "./mongo-inbox-store.js";
import type { RedisInboxStoreOptions } from "./redis-inbox-store.js";
import type { SqlInboxStoreOptions } from "./sql-inbox-store.js";

/** Settings of an inbox store on a SQL database. */
export interface SqlInboxStoreSettings extends SqlInboxStoreOptions {
  /** As for an app's database: `postgres://…`, `mssql://…`, `sqlite:…`. The store opens it, and closes it. */
  readonly url?: string | undefined;
  /** A database that is open. The store does not close it. */
  readonly db?: Database | undefined;
}

/** Which provider, and its own options. */
export type InboxStoreSettings =
  | ({ readonly kind: "sql" } & SqlInboxStoreSettings)
  | ({ readonly kind: "redis" } & RedisInboxStoreOptions)
  | ({ readonly kind: "mongodb" } & MongoInboxStoreOptions)
  | ({ readonly kind: "http" } & HttpInboxStoreOptions);

const kinds: readonly InboxStoreSettings["kind"][] = ["sql", "redis", "mongodb", "http"];

/**
 * Opens the inbox store that the settings name. Only that provider's code and package are loaded. Nothing is guessed: a
 * wrong store would handle every message anew.
 *
 * @example
 * const store = await openInboxStore({ kind: "redis", url: "redis://localhost:6379" });
 */
export async function openInboxStore(settings: InboxStoreSettings): Promise<LeasingInboxStore> {
  switch (settings?.kind) {
    case "sql": {
      const { kind, ...options } = settings;
      return openSqlStore(options);
    }
    case "redis": {
      const { kind, ...options } = settings;
      return (await import("./redis-inbox-store.js")).createRedisInboxStore(options);
    }
    case "mongodb": {
      const { kind, ...options } = settings;
      return (await import("./mongo-inbox-store.js")).createMongoInboxStore(options);
    }
    case "http": {
      const { kind, ...options } = settings;
      return (await import("./client/http-inbox-store.js")).createHttpInboxStore(options);
    }
    default:
      throw new InvalidArgumentError(`openInboxStore: kind must be one of ${kinds.join(", ")}.`);
  }
}

async function openSqlStore({ url, db, ...options }: SqlInboxStoreSettings): Promise<LeasingInboxStore> {
  checkAll("openInboxStore", [() => requireOneOf({ url, db }, ["url", "db"])]);
  const { createSqlInboxStore } = await import("./sql-inbox-store.js");
  if (db !== undefined) return createSqlInboxStore(db, options);
  const opened = await openDatabase(url!);
  try {
    return { ...createSqlInboxStore(opened, options), close: () => opened.close() };
  } catch (error) {
    await opened.close(); // an option was refused
    throw error;
  }
}
