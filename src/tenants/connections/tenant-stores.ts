import { setTimeout as sleep } from "node:timers/promises";
import { guardedLogger, type Logger, silentLogger } from "../../base/logger.js";
import { openDatabase } from "../../config/open-database.js";
import { type SecretResolver, secretsFromEnvironment } from "../../config/secret-reference.js";
import { InvalidArgumentError, InvalidOperationError } from "../../errors.js";
import { createInbox, type Inbox, type InboxOptions } from "../../inbox/inbox.js";
import { createOutbox, type Outbox, type OutboxOptions } from "../../outbox/outbox.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";
import type { Database } from "../../sql/dialect.js";
import type { TenantDiscovery } from "../discovery/discovery.js";
import { tenantList } from "../discovery/tenant-list.js";
import { isSameTenant, storeAddress, type Tenant, tenantKey } from "../tenant.js";
import { type ConnectionBudget, type ConnectionLimits, connectionBudget } from "./connection-budget.js";
import { type OnDemandDatabase, onDemandDatabase } from "./on-demand-database.js";
import { statementCache } from "./statement-cache.js";

/** One tenant's tables. */
export interface TenantStores {
  readonly id: string;
  readonly db: OnDemandDatabase;
  readonly inbox: Inbox;
  readonly outbox: Outbox;
  /** What they are called, where it is not as usual. */
  readonly tables: Pick<Tenant, "schema" | "inbox" | "outbox">;
}

export interface TenantStoresOptions {
  readonly discover: TenantDiscovery;
  /** How old the list of tenants may be: 5 minutes by default. */
  readonly refreshMs?: number;
  /** The time that the source of tenants has to answer: 10 s by default. */
  readonly discoverMs?: number;
  readonly connections?: ConnectionLimits;
  /** For every tenant's inbox and outbox; schema and table names come with the tenant. */
  readonly inbox?: Omit<InboxOptions, "logger" | "schema" | "table" | "id">;
  readonly outbox?: Omit<OutboxOptions, "logger" | "schema" | "table" | "id">;
  readonly logger?: Logger;
  readonly resolveSecret?: SecretResolver;
  /** Instead of `openDatabase`: to set what a URL cannot say. */
  readonly open?: (url: string, options: { readonly maxConnections: number }) => Promise<Database> | Database;
  /** For tests: milliseconds, instead of the process's clock. */
  readonly now?: () => number;
}

export interface TenantStoreProvider {
  /** The inbox of a tenant; for an unknown one the source is asked once more, then it is an InvalidOperationError. */
  inbox(key: string): Promise<Inbox>;
  outbox(key: string): Promise<Outbox>;
  stores(key: string): Promise<TenantStores>;
  /** Undefined for one that is not, or no longer, in the list as it is known now. */
  find(key: string): Promise<TenantStores | undefined>;
  /** The same without waiting, by a key as `list` has it: undefined, too, for one that nobody has asked for yet. */
  ready(id: string): TenantStores | undefined;
  /** The keys of all tenants. */
  list(): Promise<readonly string[]>;
  /** One key for each place that has tables: tenants that share them are polled once. */
  distinctStores(): Promise<readonly string[]>;
  refresh(): Promise<void>;
  readonly connections: Pick<ConnectionBudget, "taken" | "openFiles">;
  /** Lets what runs finish, for half a minute at most, and closes all pools. */
  close(): Promise<void>;
}

const known = [
  "discover",
  "refreshMs",
  "discoverMs",
  "connections",
  "inbox",
  "outbox",
  "logger",
  "resolveSecret",
  "open",
  "now",
];

const longestCloseMs = 30_000;

interface Opened {
  readonly tenant: Tenant;
  readonly stores: Promise<TenantStores>;
  /** The same once they are there. */
  made: TenantStores | undefined;
}

/**
 * The stores of many tenants, found at run time. Nothing is opened before it is asked for; unchanged tenants keep
 * their stores and pools, changed and removed ones finish what runs and are closed.
 *
 * @example
 * const tenants = createTenantStores({ discover: tenantsFromConfiguration([{ id: "acme", database: "sqlite:acme.db" }]) });
 * const inbox = await tenants.inbox("acme");
 */
export function createTenantStores(options: TenantStoresOptions): TenantStoreProvider {
  refuseUnknown(options, known, "createTenantStores");
  if (typeof options.discover !== "function") {
    throw new InvalidArgumentError("createTenantStores: discover must be a function that answers tenants.");
  }
  const { refreshMs = 5 * 60_000, discoverMs = 10_000 } = options;
  requireDuration(refreshMs, "refreshMs");
  requireDuration(discoverMs, "discoverMs");
  const logger = guardedLogger(options.logger ?? silentLogger);
  const budget = connectionBudget(options.connections);
  const open = options.open ?? openDatabase;
  const share = statementCache();
  /** Tenants with the same URL have one pool, by that URL. */
  const databases = new Map<string, Promise<OnDemandDatabase>>();
  const opened = new Map<string, Opened>();

  const databaseOf = (url: string): Promise<OnDemandDatabase> => {
    let db = databases.get(url);
    if (db === undefined) {
      db = onDemandDatabase({ url, budget, open }).then(share);
      databases.set(url, db);
      db.catch(() => databases.get(url) === db && databases.delete(url)); // the next one tries again
    }
    return db;
  };

  const create = async (tenant: Tenant): Promise<TenantStores> => {
    const { id, database, schema, inbox, outbox } = tenant;
    const db = await databaseOf(database);
    const common = { id, logger, ...(schema === undefined ? {} : { schema }) };
    const table = (name: string | undefined) => (name === undefined ? {} : { table: name });
    return {
      id,
      db,
      tables: { schema, inbox, outbox },
      inbox: createInbox(db, { ...options.inbox, ...common, ...table(inbox) }),
      outbox: createOutbox(db, { ...options.outbox, ...common, ...table(outbox) }),
    };
  };

  const storesOf = (tenant: Tenant): Promise<TenantStores> => {
    const before = opened.get(tenant.id);
    if (before !== undefined) return before.stores;
    const stores = create(tenant);
    const entry: Opened = { tenant, stores, made: undefined };
    opened.set(tenant.id, entry);
    stores.then(
      (made) => {
        entry.made = made;
      },
      () => opened.get(tenant.id) === entry && opened.delete(tenant.id),
    );
    return stores;
  };

  /** What is gone or is elsewhere now. Who still holds such a store may finish with it: see `onDemandDatabase`. */
  const changed = (tenants: ReadonlyMap<string, Tenant>): void => {
    for (const [id, { tenant }] of opened) {
      const now = tenants.get(id);
      if (now === undefined || !isSameTenant(now, tenant)) opened.delete(id);
    }
    const urls = new Set([...tenants.values()].map((tenant) => tenant.database));
    for (const [url, db] of databases) {
      if (urls.has(url)) continue;
      databases.delete(url);
      db.then((one) => one.close()).catch(() => {});
    }
  };

  const list = tenantList({
    discover: options.discover,
    resolveSecret: options.resolveSecret ?? secretsFromEnvironment({}),
    refreshMs,
    discoverMs,
    logger,
    anyUrl: options.open !== undefined,
    changed,
    now: options.now ?? (() => performance.now()),
  });

  const distinctOf = new WeakMap<ReadonlyMap<string, Tenant>, readonly string[]>();

  const stores = async (key: string): Promise<TenantStores> => {
    const id = tenantKey(key);
    const tenant = list.known()?.get(id) ?? (await list.current()).get(id) ?? (await list.seek()).get(id);
    if (tenant === undefined) {
      throw new InvalidOperationError(`There is no tenant "${id}", even after the list was asked for anew.`);
    }
    return storesOf(tenant);
  };

  return {
    stores,
    async find(key) {
      const tenant = (list.known() ?? (await list.current())).get(tenantKey(key));
      return tenant === undefined ? undefined : storesOf(tenant);
    },
    ready: (id) => (list.known()?.has(id) ? opened.get(id)?.made : undefined),
    inbox: async (key) => (await stores(key)).inbox,
    outbox: async (key) => (await stores(key)).outbox,
    list: async () => [...(await list.current()).keys()],
    async distinctStores() {
      const tenants = await list.current();
      let ids = distinctOf.get(tenants);
      if (ids === undefined) {
        ids = onePerStore(tenants.values());
        distinctOf.set(tenants, ids);
      }
      return ids;
    },
    refresh: async () => void (await list.refresh()),
    connections: budget,
    async close() {
      opened.clear();
      for (const db of databases.values()) await db.then((one) => one.close()).catch(() => {});
      databases.clear();
      // What never ends must not keep a process from it.
      const over = new AbortController();
      const late = sleep(longestCloseMs, undefined, { signal: over.signal }).catch(() => {});
      await Promise.race([budget.settled(), late]);
      over.abort();
    },
  };
}

/** The same tenant of a place for everybody, in whatever order the source has them. */
function onePerStore(tenants: Iterable<Tenant>): readonly string[] {
  const first = new Map<string, string>();
  for (const tenant of tenants) {
    const place = storeAddress(tenant);
    const id = first.get(place);
    if (id === undefined || tenant.id < id) first.set(place, tenant.id);
  }
  return [...first.values()];
}
