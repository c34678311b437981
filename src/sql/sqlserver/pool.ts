import type { ConnectionPool, config as MssqlConfig } from "mssql";

/** The used part of a connection of tedious. */
interface TdsConnection {
  /** The server has reported an open transaction. */
  readonly inTransaction?: boolean;
  close(): void;
  on(event: "errorMessage", listener: (message: { readonly number: number }) => void): unknown;
  once(event: "connect", listener: (error?: object) => void): unknown;
  off(event: "errorMessage", listener: (message: { readonly number: number }) => void): unknown;
}

/** The methods that each driver of mssql implements for its pool, and two of the pool's own. Its types do not list them. */
interface PoolParts {
  _poolCreate(): Promise<TdsConnection>;
  _poolDestroy(connection: TdsConnection): Promise<unknown>;
  _poolValidate(connection: TdsConnection): unknown;
  acquire(requester: unknown): Promise<TdsConnection>;
  release(connection: TdsConnection): unknown;
}

interface PoolClass {
  readonly ConnectionPool: new (config: MssqlConfig) => ConnectionPool;
}

/** mssql's pool with its first connection in it. */
export async function openPool(mssql: PoolClass, config: MssqlConfig): Promise<ConnectionPool> {
  const pool = new mssql.ConnectionPool(withLoginNumbers(config));
  const parts = pool as unknown as PoolParts;
  // A connection that breaks while idle is dropped by the pool. Without a listener the event would end the process.
  pool.on("error", () => {});
  guardConnections(parts, config.pool?.idleTimeoutMillis ?? 30_000); // mssql's own default
  const restore = keepTestConnection(parts);
  try {
    await pool.connect();
  } finally {
    restore.destroy();
  }
  parts.release(await parts.acquire(pool).finally(restore.create));
  return pool;
}

/** The error of a failed login has no number: tedious keeps only its text. The number comes with an event before it. */
function withLoginNumbers(config: MssqlConfig): MssqlConfig {
  const { beforeConnect } = config;
  return {
    ...config,
    beforeConnect(connection) {
      noteLoginNumber(connection as unknown as TdsConnection);
      beforeConnect?.(connection);
    },
  };
}

const reporting = new WeakSet<ConnectionPool>();

/** A caller's pool reports the numbers of failed logins as well, however often it is given. Everything else of it stays its own. */
export function reportLoginNumbers(pool: ConnectionPool): void {
  if (reporting.has(pool)) return;
  reporting.add(pool);
  const parts = pool as unknown as { config: MssqlConfig }; // its types do not list it
  parts.config = withLoginNumbers(parts.config);
}

function noteLoginNumber(connection: TdsConnection): void {
  let number: number | undefined;
  const note = (message: { readonly number: number }): void => {
    number = message.number;
  };
  connection.on("errorMessage", note);
  connection.once("connect", (error) => {
    connection.off("errorMessage", note);
    if (error !== undefined && number !== undefined) Object.assign(error, { number });
  });
}

/**
 * mssql logs in once to test the settings, and throws that connection away: two logins for a cold start. This keeps the
 * connection and gives it to the pool as its first. `restore` takes the two methods back.
 */
function keepTestConnection(pool: PoolParts) {
  const { _poolCreate: create, _poolDestroy: destroy } = pool;
  let kept: TdsConnection | undefined;
  pool._poolDestroy = async (connection) => {
    // at once: the pool that mssql makes next keeps the method that it finds, and closes all its connections with it
    pool._poolDestroy = destroy;
    kept = connection;
  };
  pool._poolCreate = async () => {
    const first = kept;
    kept = undefined;
    if (first === undefined) return create.call(pool);
    if (await pool._poolValidate(first)) return first;
    await destroy.call(pool, first);
    return create.call(pool);
  };
  return {
    destroy: () => {
      pool._poolDestroy = destroy;
    },
    create: () => {
      pool._poolCreate = create;
    },
  };
}

/**
 * Does not use a connection that was idle for longer than the pool keeps one. The pool's own timer does not run in a process
 * that is frozen between two calls, and a gateway may have dropped the connection meanwhile, without notice.
 *
 * Closes a connection that is given back with an open transaction, which the server then rolls back. XACT_ABORT does not end
 * a transaction after every error: one that makes a procedure's statement impossible, such as a dropped index that it names,
 * leaves it open. What the next call wrote would be reported as done, and never be committed. The pool drops a closed connection.
 */
function guardConnections(pool: PoolParts, idleMs: number): void {
  const { _poolCreate: create, _poolValidate: validate, release } = pool;
  const idleSince = new WeakMap<TdsConnection, number>();
  const note = (connection: TdsConnection) => {
    idleSince.set(connection, Date.now()); // performance.now may stand still in a frozen process
    return connection;
  };
  // one that comes after another was given back in its place is idle from the start
  pool._poolCreate = async () => note(await create.call(pool));
  pool._poolValidate = (connection) =>
    Date.now() - (idleSince.get(connection) ?? 0) <= idleMs && validate.call(pool, connection);
  pool.release = (connection) => {
    if (connection.inTransaction === true) connection.close();
    return release.call(pool, note(connection));
  };
}
