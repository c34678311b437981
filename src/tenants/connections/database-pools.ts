import { AsyncLocalStorage } from "node:async_hooks";
import type { Budget } from "../../base/async.js";
import { memoisePromise } from "../../base/async.js";
import { InvalidOperationError } from "../../errors.js";
import type { Database, Dialect } from "../../sql/dialect.js";
import type { QueueNames } from "../../sql/names.js";
import type { ConnectionBudget, Pool } from "./connection-budget.js";

/** Opens the database of a URL. */
export type OpenPool = (
  url: string,
  options: { readonly maxConnections: number },
) => Promise<Database> | Database;

/** One pool for each database URL, however many tenants have it. */
export function databasePools(budget: ConnectionBudget, open: OpenPool) {
  const cacheStatements = statementCache();
  const databases = new Map<string, () => Promise<OnDemandDatabase>>();
  return {
    get(url: string): Promise<OnDemandDatabase> {
      const opened =
        databases.get(url) ??
        memoisePromise(async () => cacheStatements(await onDemandDatabase(url, budget, open)));
      databases.set(url, opened);
      return opened();
    },
    /** Closes the pools of all other URLs after their last use. */
    async keepOnly(urls: ReadonlySet<string>): Promise<void> {
      const others = [...databases].filter(([url]) => !urls.has(url));
      for (const [url] of others) databases.delete(url);
      // A database that cannot be opened has nothing to close.
      await Promise.allSettled(others.map(async ([, opened]) => (await opened()).close()));
    },
  };
}

export interface OnDemandDatabase extends Database {
  /** Waits for connection slots and keeps them until the returned function is called. */
  reserve(withinMs: number, signal?: AbortSignal): Promise<() => void>;
}

/**
 * A database whose pool is open only while the connection budget has slots for it. A call on a closed pool opens it
 * again. After `close` the pool is closed after each last use, so that a caller that still holds the database may finish.
 */
async function onDemandDatabase(
  url: string,
  budget: ConnectionBudget,
  open: OpenPool,
): Promise<OnDemandDatabase> {
  const openPool = async () => open(url, { maxConnections: budget.perDatabase });
  const first = await openPool(); // makes no connection: the first query does
  const { dialect, id } = first;
  if (isInMemory(url)) return { ...first, reserve: async () => () => {} }; // closing it would delete it
  /** Undefined while the pool is closed. */
  let current: (() => Promise<Database>) | undefined = async () => first;

  const isFile = dialect.name === "sqlite";
  const pool: Pool = {
    server: isFile ? undefined : serverOf(url),
    size: isFile ? 1 : budget.perDatabase,
    async close() {
      const closing = current;
      current = undefined;
      await (await closing?.())?.close();
    },
  };

  const using = <T>(
    work: (db: Database, signal: AbortSignal | undefined) => Promise<T>,
    ownSignal?: AbortSignal,
  ): Promise<T> =>
    callInTurn(ownSignal, async (signal) => {
      await budget.acquire(pool, signal);
      try {
        current ??= memoisePromise(openPool);
        return await work(await current(), signal);
      } finally {
        budget.release(pool);
      }
    });

  return {
    dialect,
    id,
    driver: {
      query: (statement, params, options) =>
        using((db, signal) => db.driver.query(statement, params, { signal }), options?.signal),
      transaction: (work, options) =>
        using((db, signal) => db.driver.transaction(work, { signal }), options?.signal),
      close: async () => budget.retire(pool),
    },
    async reserve(withinMs, signal) {
      await budget.acquire(pool, signal, withinMs);
      return () => budget.release(pool);
    },
    exclusively: (schema, work) => using((db) => db.exclusively(schema, work)),
    close: async () => budget.retire(pool),
  };
}

const isInMemory = (url: string): boolean => /^(sqlite|file):.*:memory:/i.test(url);

/** The calls to tenants' databases that one turn makes. */
interface TurnCalls {
  readonly over: AbortController;
  running: number;
}

const currentTurn = new AsyncLocalStorage<TurnCalls>();

/**
 * Does a turn's work. Its calls to tenants' databases are aborted when the turn is abandoned. A handler that was given up
 * may leave calls behind: they are aborted when the turn's time is over. Otherwise they would keep their connections.
 */
export async function inTurn<T>(
  turnBudget: Budget,
  abandoned: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  const calls: TurnCalls = { over: new AbortController(), running: 0 };
  const abort = (): void => calls.over.abort(abandoned.reason ?? turnOver());
  abandoned.addEventListener("abort", abort);
  try {
    return await currentTurn.run(calls, work);
  } finally {
    if (calls.running > 0) setTimeout(abort, turnBudget.remainingMs()).unref();
  }
}

/** Makes a call with a signal that follows its own and the one of the turn that it belongs to. */
async function callInTurn<T>(
  own: AbortSignal | undefined,
  call: (signal: AbortSignal | undefined) => Promise<T>,
): Promise<T> {
  const calls = currentTurn.getStore();
  if (calls === undefined) return call(own);
  const either = own === undefined ? undefined : follow(own, calls.over.signal);
  calls.running++;
  try {
    return await call(either?.signal ?? calls.over.signal);
  } finally {
    calls.running--;
    either?.end();
  }
}

/** As AbortSignal.any, but a signal that lives as long as the process does not remember every call. */
function follow(...signals: readonly AbortSignal[]) {
  const controller = new AbortController();
  const abort = (): void => controller.abort(signals.find((signal) => signal.aborted)?.reason);
  if (signals.some((signal) => signal.aborted)) abort();
  for (const signal of signals) signal.addEventListener("abort", abort);
  return {
    signal: controller.signal,
    end: () => {
      for (const signal of signals) signal.removeEventListener("abort", abort);
    },
  };
}

const turnOver = () => new InvalidOperationError("The tenant's turn is over, and its calls were aborted.");

/**
 * Thousands of tenants whose tables have the same names use the same statements. They are made once, and a driver
 * compiles them once.
 */
function statementCache(): <Db extends Database>(db: Db) => Db {
  const dialects = new Map<Dialect, Dialect>();
  return (db) => {
    const dialect = dialects.get(db.dialect) ?? cachedDialect(db.dialect);
    dialects.set(db.dialect, dialect);
    return { ...db, dialect };
  };
}

function cachedDialect(dialect: Dialect): Dialect {
  return {
    ...dialect,
    receiving: cached(dialect.receiving),
    inbox: cached(dialect.inbox),
    outbox: cached(dialect.outbox),
    ...(dialect.pollStatement && { pollStatement: cached(dialect.pollStatement) }),
  };
}

/** Caches by the parameters: names of tables, then the options of their statements. */
function cached<Params extends readonly [QueueNames, ...unknown[]], Made>(
  make: (...params: Params) => Made,
): (...params: Params) => Made {
  const all = new Map<string, Made>();
  return (...params) => {
    const key = JSON.stringify(params);
    const made = all.get(key) ?? make(...params);
    all.set(key, made);
    return made;
  };
}

const serverWord = /(?:^|;)\s*(?:server|data source|addr|address|network address)\s*=\s*"?(?:tcp:)?([^;"]+)/i;
const usualPorts: Readonly<Record<string, string>> = { "postgres:": "5432", "postgresql:": "5432" };

/** The host and port of a URL, without its other parts: databases on the same server share that server's limit. */
export function serverOf(url: string): string {
  const [host, portInWords] = serverWord.exec(url)?.[1]?.split(",") ?? [];
  if (host !== undefined) return hostAndPort(host.trim(), portInWords?.trim() || "1433");
  // A URL without a host names a local socket.
  const readable = [url, url.replace("@/", "@localhost/")].find((one) => URL.canParse(one));
  if (readable === undefined) return "unknown"; // an `open` of the user's own reads it; an error would quote the URL
  const { protocol, hostname, port } = new URL(readable);
  return hostAndPort(hostname, port || (usualPorts[protocol] ?? "1433"));
}

const hostAndPort = (host: string, port: string): string => `${host.toLowerCase()}:${port}`;
