import { abortAfter, memoisePromise, withinTime } from "../../base/async.js";
import { omitUndefined } from "../../base/defined.js";
import { type Logger, type LoggerOption, loggerOf } from "../../base/logger.js";
import { type AllowedDatabases, allowExample, allowProblems } from "../../config/allowed-databases.js";
import { openDatabase } from "../../config/database-url.js";
import { type SecretResolver, secretsFromEnvironment } from "../../config/secret-reference.js";
import { InvalidArgumentError, InvalidOperationError, SchemaMissingError } from "../../errors.js";
import { createInbox, type Inbox, type InboxOptions } from "../../inbox/inbox.js";
import { createOutbox, type Outbox, type OutboxOptions } from "../../outbox/outbox.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";
import type { Database, Dialect } from "../../sql/dialect.js";
import type { SqlStatement } from "../../sql/driver.js";
import type { QueueNames } from "../../sql/names.js";
import { tenantList } from "../discovery/tenant-list.js";
import { distinctTenants, isSameTenant, type Tenant, type TenantDiscovery, tenantKey } from "../tenant.js";
import { ConnectionBudget, type ConnectionLimits } from "./connection-budget.js";
import { databasePools, type OnDemandDatabase, type OpenPool } from "./database-pools.js";

/** One tenant's inbox and outbox. */
export interface TenantStores {
  readonly id: string;
  readonly db: OnDemandDatabase;
  readonly inbox: Inbox;
  readonly outbox: Outbox;
  /** The names of its schema and tables that are not the default. */
  readonly tables: Pick<Tenant, "schema" | "inbox" | "outbox">;
  /** Polls both queues in one round trip; undefined for a dialect without such a statement. */
  readonly pollStatement: SqlStatement | undefined;
}

/** How tenants and their stores are found and opened. */
export interface TenantStoresOptions {
  readonly discover: TenantDiscovery;
  /**
   * Which databases a tenant may name. Required where the tenants come from a catalogue or a store of secrets: who writes
   * there chooses where the functions send their password, or a token of their identity.
   */
  readonly allow?: AllowedDatabases;
  /** The time after which the list of tenants is refreshed: 5 minutes by default. */
  readonly refreshMs?: number;
  /** The time that `discover` has to return the list: 10 s by default. */
  readonly discoverMs?: number;
  readonly connections?: ConnectionLimits;
  /** For every tenant's inbox and outbox; schema and table names come with the tenant. */
  readonly inbox?: Omit<InboxOptions, "logger" | "schema" | "table" | "id">;
  readonly outbox?: Omit<OutboxOptions, "logger" | "schema" | "table" | "id">;
  readonly logger?: LoggerOption;
  readonly resolveSecret?: SecretResolver;
  /** Instead of `openDatabase`: to set what a URL cannot say. */
  readonly open?: OpenPool;
  /** For tests: milliseconds, instead of the process's clock. */
  readonly now?: () => number;
}

/** The stores of all tenants. */
export interface TenantStoreProvider {
  /** The inbox of a tenant. For an unknown key the list is refreshed once, then it is an InvalidOperationError. */
  inbox(key: string): Promise<Inbox>;
  outbox(key: string): Promise<Outbox>;
  stores(key: string): Promise<TenantStores>;
  /** Undefined for a tenant that is not in the current list. */
  find(key: string): Promise<TenantStores | undefined>;
  /** The keys of all tenants. */
  list(): Promise<readonly string[]>;
  /** The key of one tenant for each set of tables: tenants that share their tables are polled once. */
  distinctStores(): Promise<readonly string[]>;
  refresh(): Promise<void>;
  readonly connections: Pick<ConnectionBudget, "taken" | "openFiles">;
  /** Lets running work finish, for half a minute at most, and closes all pools. */
  close(): Promise<void>;
}

const known = [
  ...["discover", "allow", "refreshMs", "discoverMs", "connections", "inbox", "outbox"],
  ...["logger", "resolveSecret", "open", "now"],
];

const longestCloseMs = 30_000;

/** How a migration reaches the tenants' databases as another user than the one that their records name. */
export interface SignIn {
  /** Returns the URL to open instead of a tenant's. */
  readonly signInAs?: ((url: string) => string) | undefined;
}

/**
 * The stores of many tenants, found at run time. A store is made when it is first asked for. An unchanged tenant keeps
 * its stores and its pool; the pool of a changed or removed tenant is closed when its running work is finished.
 *
 * @example
 * const tenants = createTenantStores({ discover: tenantsFromConfiguration([{ id: "acme", database: "sqlite:acme.db" }]) });
 * const inbox = await tenants.inbox("acme");
 */
export function createTenantStores(
  options: TenantStoresOptions,
  { signInAs = (url) => url }: SignIn = {},
): TenantStoreProvider {
  const { refreshMs, discoverMs } = requireOptions(options);
  const logger = loggerOf(options.logger);
  const budget = new ConnectionBudget(options.connections);
  const open = options.open ?? openDatabase;
  const pools = databasePools(budget, (url, limits) => open(signInAs(url), limits));
  const opened = new Map<string, { readonly tenant: Tenant; readonly stores: () => Promise<TenantStores> }>();
  let distinct: readonly string[] = [];
  let isClosed = false;
  const refuseClosed = (): void => {
    if (isClosed) throw new InvalidOperationError("The tenants' stores were closed: no store can be opened.");
  };

  const storesOf = (tenant: Tenant): Promise<TenantStores> => {
    refuseClosed(); // it may have been closed while the list was read
    const entry = opened.get(tenant.id) ?? {
      tenant,
      stores: memoisePromise(async () =>
        makeStores(tenant, await pools.get(tenant.database), options, logger),
      ),
    };
    opened.set(tenant.id, entry);
    return entry.stores();
  };

  /** A caller that still holds the stores of a removed tenant may finish with them: see `onDemandDatabase`. */
  const onChange = (tenants: ReadonlyMap<string, Tenant>): void => {
    distinct = distinctTenants(tenants.values());
    for (const [id, { tenant }] of opened) {
      const current = tenants.get(id);
      if (current === undefined || !isSameTenant(current, tenant)) opened.delete(id);
    }
    void pools.keepOnly(new Set([...tenants.values()].map(({ database }) => database)));
  };

  const list = tenantList({
    discover: options.discover,
    resolveSecret: options.resolveSecret ?? secretsFromEnvironment({}),
    refreshMs,
    discoverMs,
    logger,
    anyUrl: options.open !== undefined,
    allow: options.allow,
    onChange,
    now: options.now ?? (() => performance.now()),
  });

  const stores = async (key: string): Promise<TenantStores> => {
    refuseClosed();
    const id = tenantKey(key);
    const tenant =
      list.known()?.get(id) ?? (await list.current()).get(id) ?? (await list.refreshForUnknown()).get(id);
    if (tenant === undefined) {
      throw new InvalidOperationError(
        `There is no tenant "${id}", even after the list of tenants was refreshed.`,
      );
    }
    return storesOf(tenant);
  };

  return {
    stores,
    async find(key) {
      refuseClosed();
      const tenant = (list.known() ?? (await list.current())).get(tenantKey(key));
      return tenant === undefined ? undefined : storesOf(tenant);
    },
    inbox: async (key) => (await stores(key)).inbox,
    outbox: async (key) => (await stores(key)).outbox,
    list: async () => [...(await list.current()).keys()],
    async distinctStores() {
      await list.current();
      return distinct;
    },
    refresh: async () => void (await list.refresh()),
    connections: budget,
    async close() {
      isClosed = true;
      opened.clear();
      await pools.keepOnly(new Set());
      // Work that never ends must not keep the process alive.
      await withinTime(longestCloseMs, budget.settled(), () => new Error("late")).catch(() => {});
    },
  };
}

function requireOptions(options: TenantStoresOptions) {
  refuseUnknown(options, known, "createTenantStores");
  if (typeof options.discover !== "function") {
    throw new InvalidArgumentError("createTenantStores: discover must be a function that returns tenants.");
  }
  requireAllow(options);
  const { refreshMs = 5 * 60_000, discoverMs = 10_000 } = options;
  requireDuration(refreshMs, "refreshMs");
  requireDuration(discoverMs, "discoverMs");
  return { refreshMs, discoverMs };
}

function requireAllow({ discover, allow, open }: TenantStoresOptions): void {
  if (allow === undefined && discover.needsAllow && open === undefined)
    throw new InvalidArgumentError(
      `createTenantStores: these tenants come from records, and who writes the records chooses where passwords are sent. Set allow to the databases that they may name, for example allow: ${allowExample}.`,
    );
  const problems = allow === undefined ? [] : allowProblems(allow);
  if (problems.length > 0) throw new InvalidArgumentError(`createTenantStores: ${problems.join("; ")}.`);
}

function makeStores(
  { id, schema, inbox, outbox }: Tenant,
  db: OnDemandDatabase,
  options: Pick<TenantStoresOptions, "inbox" | "outbox">,
  logger: Logger,
): TenantStores {
  const common = { id, logger };
  const tables = { schema, inbox, outbox };
  return {
    id,
    db,
    tables,
    pollStatement: pollStatement(db.dialect, tables),
    inbox: createInbox(db, { ...options.inbox, ...common, ...omitUndefined({ schema, table: inbox }) }),
    outbox: createOutbox(db, { ...options.outbox, ...common, ...omitUndefined({ schema, table: outbox }) }),
  };
}

/** The statement that polls both queues of a tenant; undefined for a dialect without one. */
export function pollStatement(
  dialect: Dialect,
  { schema, inbox, outbox }: Pick<Tenant, "schema" | "inbox" | "outbox">,
): SqlStatement | undefined {
  const names = (kind: QueueNames["kind"], table: string | undefined) =>
    dialect.names(kind, schema ?? dialect.defaults.schema, table ?? dialect.defaults[kind]);
  return dialect.pollStatement?.(names("inbox", inbox), names("outbox", outbox));
}

/** The longest time of a poll, by default. */
export const defaultPollTimeoutMs = 2_000;

/** The queues in which a claim could find a message. */
export interface Due {
  readonly inbox: boolean;
  readonly outbox: boolean;
}

interface PolledStores extends Pick<TenantStores, "pollStatement"> {
  readonly db: Pick<Database, "dialect" | "driver" | "id">;
}

/** The database did not respond to the poll in time. */
export class PollTimeoutError extends InvalidOperationError {
  override readonly name = "PollTimeoutError";
}

/**
 * Polls both queues of a tenant in one round trip, which is all that an idle tenant costs. A dialect without such a
 * statement reports both queues as due, so that the dispatcher claims from them.
 */
export async function poll(stores: PolledStores, withinMs: number): Promise<Due> {
  const { dialect, driver } = stores.db;
  const statement = stores.pollStatement;
  if (statement === undefined) return { inbox: true, outbox: true };
  try {
    const rows = await abortAfter(
      withinMs,
      (signal) => driver.query(statement, {}, { signal }),
      () => pollTimeout(withinMs),
    );
    const queues = rows.map(({ queue }) => queue);
    return { inbox: queues.includes("inbox"), outbox: queues.includes("outbox") };
  } catch (error) {
    if (!dialect.isSchemaMissing(error)) throw error;
    throw new SchemaMissingError(
      `The inbox or the outbox is not in ${stores.db.id}, or is older than this version of oncebox. Migrate it when you deploy.`,
      { cause: error },
    );
  }
}

const pollTimeout = (ms: number) =>
  new PollTimeoutError(`The database did not respond to a poll within ${Math.round(ms)} ms (pollTimeoutMs).`);
