import type { EventEmitter } from "node:events";
import type { Duplex } from "node:stream";
import type { Client, ClientBase, ClientConfig, Pool, PoolClient, PoolConfig } from "pg";
import { abortable, memoisePromise, singleFlight, withinTime, yieldToEventLoop } from "../../base/async.js";
import { DriverMissingError } from "../../errors.js";
import { closedError, type SqlDriver, transactionSlots } from "../driver.js";
import { pgClientQuery, runTransaction } from "./connection.js";
import { isConnectionError } from "./faults.js";
import { callersPool, type WatchedPool, watchedPool } from "./pool.js";

interface PgClientOptions {
  readonly config: PoolConfig;
  readonly prepare: boolean;
  /** The caller's own, instead of one that is made with `config`. */
  readonly pool?: Pool;
}

interface OpenedPool {
  readonly pg: Awaited<ReturnType<typeof loadPg>>;
  readonly pool: WatchedPool;
}

/** A pool of connections. The driver is loaded and the pool made at first use. */
export function pgClient({ config, prepare, pool: given }: PgClientOptions): SqlDriver<"postgres"> {
  let closed = false;
  let opening: Promise<OpenedPool> | undefined;
  const slots = transactionSlots(config.max ?? 10); // pg's own default

  const loadPool = memoisePromise(async () => {
    const pg = await loadPg();
    return { pg, pool: given === undefined ? watchedPool(pg, config) : callersPool(given) };
  });
  const openPool = async (): Promise<OpenedPool> => {
    if (closed) throw closedError();
    opening = loadPool();
    return opening;
  };
  /** Requests to cancel a statement that the server has not taken yet. */
  const cancelling = new Set<Promise<void>>();

  /** The first connection while `open` makes it: without waiting for it, the pool would make another one. */
  const connecting = singleFlight(async () => {
    const { pool } = await openPool();
    pool.release(await pool.connect());
  });

  const withClient = async <T>(
    work: (client: PoolClient) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> => {
    signal?.throwIfAborted();
    const { pg, pool } = await openPool();
    // A failure is ignored here: the call then makes its own attempt to connect.
    const first = connecting.current();
    if (first !== undefined) await abortable(first.catch(ignored), signal);
    const client = await pool.connect(signal);
    let failure: Error | undefined;
    try {
      return await abortable(work(client), signal);
    } catch (error) {
      if (signal?.aborted || isConnectionError(error)) failure = error as Error;
      if (signal?.aborted) {
        const cancelled = cancelStatement(client, pg.Connection, config.stream);
        cancelling.add(cancelled);
        void cancelled.then(() => cancelling.delete(cancelled));
      }
      throw error;
    } finally {
      pool.release(client, failure);
    }
  };

  return {
    query: (statement, params, { signal } = {}) =>
      withClient((client) => pgClientQuery(client, statement, params, prepare), signal),
    async transaction(work, { signal } = {}) {
      const release = await slots.take(signal);
      try {
        return await withClient((client) => runTransaction(client, prepare, work), signal);
      } finally {
        release();
      }
    },
    open: () => connecting.run(),
    async close() {
      closed = true;
      // Calls that wait for this connection ask the pool only after it. A server that says nothing is not waited for.
      const first = connecting.current();
      if (first !== undefined) await withinTime(longestOpenMs, first, closedError).catch(ignored);
      const opened = await opening?.catch(() => undefined);
      opening = undefined;
      // Calls that began before have asked the pool for a connection by the next tick of the event loop.
      await yieldToEventLoop();
      await opened?.pool.end();
      await Promise.all(cancelling);
    },
  };
}

/** How long `close` waits for a connection that `open` is making. */
const longestOpenMs = 2_000;

const ignored = (): void => {};

async function loadPg(): Promise<typeof import("pg")["default"]> {
  try {
    return (await import("pg")).default;
  } catch (error) {
    throw new DriverMissingError("pg", "PostgreSQL", error);
  }
}

/** A client outside of any pool, not connected yet: LISTEN belongs to one connection. */
export const pgListener = async (config: ClientConfig): Promise<Client> =>
  new (await loadPg()).Client(config);

/** The properties of a pg Client that name its session. pg has them since 8.0; its types do not. */
interface Session {
  readonly processID: number | null;
  readonly secretKey: number | null;
  readonly host: string;
  readonly port: number;
  readonly ssl: unknown;
  readonly sslNegotiation: string;
}

/** pg's `Connection`: the protocol on one socket, without a session. */
interface ProtocolConnection extends EventEmitter {
  readonly stream: Duplex;
  connect(portOrPath: number | string, host?: string): void;
  requestSsl(): void;
  cancel(processID: number, secretKey: number): void;
}

type MakeConnection = new (config: object) => unknown;

/** A server that does not take the request within this time is frozen or unreachable. */
const longestCancelMs = 2_000;

/**
 * Asks the server to stop the statement that the client runs. Closing the socket does not stop a statement that waits
 * for a lock: it would still be committed later. The request has a connection of its own, because the pool's may be dead
 * or all in use. It needs no login, takes no session of the server, and passes poolers, which `pg_cancel_backend` does not.
 * Resolves when the server has closed that connection, or after two seconds. Never rejects.
 */
async function cancelStatement(
  client: ClientBase,
  Connection: MakeConnection,
  stream: unknown,
): Promise<void> {
  const session = client as unknown as Session;
  const { processID, secretKey, host, port, ssl, sslNegotiation } = session;
  if (typeof processID !== "number" || typeof secretKey !== "number") return;
  const connection = new Connection({ ssl, sslNegotiation, stream }) as ProtocolConnection;
  const cancel = (): void => connection.cancel(processID, secretKey);
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, longestCancelMs);
    connection.once("end", () => {
      clearTimeout(timer);
      resolve();
    });
    // A connection that fails closes, too.
    connection.on("error", () => {});
    connection.on("sslconnect", cancel);
    connection.on("connect", () => {
      if (!ssl) cancel();
      else if (sslNegotiation !== "direct") connection.requestSsl();
    });
    if (host.startsWith("/")) connection.connect(`${host}/.s.PGSQL.${port}`);
    else connection.connect(port, host);
  });
  connection.stream.destroy();
}
