import { isIP } from "node:net";
import type { Duplex } from "node:stream";
import type { ClientBase, Pool, PoolClient, PoolConfig } from "pg";
import { abortAfter, abortable, sleep, withinTime } from "../../base/async.js";
import { slots } from "../driver.js";

export interface WatchedPool {
  /** Waits for a connection. An abort destroys the connection that is being made for this call. */
  connect(signal?: AbortSignal): Promise<PoolClient>;
  /** Gives a client back. One whose connection was lost, or that comes with an error, is destroyed instead. */
  release(client: PoolClient, error?: Error): void;
  /**
   * Closes the pool after its pending calls, and waits until the server has closed its connections. Both have a limit.
   * A connection that is open after it is destroyed.
   */
  end(): Promise<void>;
}

interface PgClasses {
  readonly Pool: new (config: PoolConfig) => Pool;
  readonly Client: new (config: PoolConfig) => ClientBase;
}

/** How long `end` waits for pending calls. */
const longestCallsMs = 5_000;
/** How long `end` waits, after that, for the server to close its connections. */
const longestEndMs = 2_000;

/** A pool that knows all of its connections, from the moment at which each begins to connect. */
export function watchedPool(pg: PgClasses, config: PoolConfig): WatchedPool {
  const alive = aliveClients();
  const losses = new WeakMap<ClientBase, Error>();
  const giveBack = new WeakMap<ClientBase, () => void>();
  /** pg's pool has a queue of its own, but no call can leave it. With a slot, a call never waits in it. */
  const free = slots(config.max ?? 10); // pg's own default
  const waitMs = config.connectionTimeoutMillis || Number.POSITIVE_INFINITY;
  let waiting = 0;

  const pool = new pg.Pool({ ...config, Client: alive.watching(config.Client ?? pg.Client) });
  // The loss of a connection in use is reported only to its client; its query rejects by itself.
  pool.on("connect", (client) => {
    client.on("error", (error: Error) => losses.set(client, error));
    const { connection } = client as { readonly connection?: { readonly stream?: ConnectedSocket } };
    warnWithoutTls(connection?.stream ?? {});
  });
  // The pool drops an idle client whose connection was lost. Without a listener the event would end the process.
  pool.on("error", () => {});

  const waitForSlot = async (signal: AbortSignal | undefined): Promise<() => void> => {
    waiting++;
    try {
      const taking = abortAfter(waitMs, free.take, () => noConnection(waitMs));
      return await abortable(taking, signal, { late: (unused) => unused() });
    } finally {
      waiting--;
    }
  };

  return {
    async connect(signal) {
      const release = free.tryTake() ?? (await waitForSlot(signal));
      const before = alive.last();
      const connecting = pool.connect(); // makes a client before it returns, or takes an idle one
      const made = alive.last() === before ? undefined : alive.last();
      try {
        const client = await abortable(connecting, signal, {
          late: (unused) => unused.release(),
          cancel: () => made && destroySocket(made),
        });
        giveBack.set(client, release);
        return client;
      } catch (error) {
        release();
        throw error;
      }
    },
    release(client, error) {
      const failure = losses.get(client) ?? error;
      if (failure !== undefined) destroySocket(client);
      client.release(failure);
      giveBack.get(client)?.();
    },
    async end() {
      const endPool = async (): Promise<boolean> => {
        while (waiting > 0) await sleep(1); // pool.end() would refuse them
        await pool.end();
        return true;
      };
      const isIdle = await endsWithin(longestCallsMs, endPool());
      // pool.end() does not wait for the server, which may then count old connections and new ones together.
      if (isIdle) await endsWithin(longestEndMs, alive.none());
      alive.destroyAll();
    },
  };
}

/** The clients whose sockets are open, or are being opened. */
function aliveClients() {
  const alive = new Set<ClientBase>();
  let onNone = (): void => {};
  let last: ClientBase | undefined;
  const add = (client: ClientBase): void => {
    last = client;
    alive.add(client);
    client.once("end", () => {
      alive.delete(client);
      if (alive.size === 0) onNone();
    });
  };
  return {
    /** The client that was made last. */
    last: () => last,
    watching(Client: new (config: PoolConfig) => ClientBase): new () => ClientBase {
      return class extends Client {
        constructor(clientConfig: PoolConfig = {}) {
          super(clientConfig);
          add(this);
        }
      };
    },
    async none(): Promise<void> {
      if (alive.size > 0)
        await new Promise<void>((resolve) => {
          onNone = resolve;
        });
    },
    destroyAll: () => alive.forEach(destroySocket),
  };
}

/** `client.end()` would say goodbye and wait for the server, which may be frozen. */
function destroySocket(client: ClientBase): void {
  (client as unknown as { connection?: { stream: Duplex } }).connection?.stream.destroy();
}

const endsWithin = (ms: number, work: Promise<unknown>): Promise<boolean> =>
  withinTime(
    ms,
    work.then(() => true),
    () => new Error("late"),
  ).catch(() => false);

/** In pg's words, which `classify` knows: nothing was sent. */
const noConnection = (ms: number) =>
  new Error(`No connection of the pool was free within ${ms} ms: timeout exceeded when trying to connect.`);

/** A pool of the caller's. Connections are borrowed from it; it is not closed. */
export function callersPool(pool: Pool): WatchedPool {
  /** The connections in use, each with a function that stops listening and returns the error that it was lost by. */
  const borrowed = new Map<ClientBase, () => Error | undefined>();
  return {
    async connect(signal) {
      const client = await abortable(pool.connect(), signal, { late: (unused) => unused.release() });
      borrowed.set(client, noteLoss(client));
      return client;
    },
    release(client, error) {
      const lost = borrowed.get(client)?.();
      borrowed.delete(client);
      client.release(lost ?? error);
    },
    async end() {
      const until = performance.now() + longestCallsMs;
      while (borrowed.size > 0 && performance.now() < until) await sleep(1);
    },
  };
}

/** The loss of a connection in use is reported only to its client. Without a listener the event would end the process. */
function noteLoss(client: ClientBase): () => Error | undefined {
  let lost: Error | undefined;
  const note = (error: Error): void => {
    lost = error;
  };
  client.on("error", note);
  return () => {
    client.off("error", note);
    return lost;
  };
}

/** What a connection's socket says of itself. A local socket has no remote address. */
export interface ConnectedSocket {
  readonly encrypted?: boolean;
  readonly remoteAddress?: string | undefined;
}

type Warn = (text: string, options: { code: string }) => void;

/** Hosts that were warned of. */
const warned = new Set<string>();

/**
 * Warns once for each address that is reached without TLS and is not this machine: anyone on the way can read passwords and
 * payloads. pg connects without TLS unless `sslmode` or `ssl` says otherwise.
 */
export function warnWithoutTls(
  { encrypted = false, remoteAddress }: ConnectedSocket,
  warn: Warn = (text, options) => process.emitWarning(text, options),
): void {
  if (encrypted || remoteAddress === undefined || isIP(remoteAddress) === 0) return;
  const isLocal = /^(::ffff:)?127\./.test(remoteAddress) || remoteAddress === "::1";
  if (isLocal || warned.has(remoteAddress)) return;
  warned.add(remoteAddress);
  warn(
    `PostgreSQL at ${remoteAddress} is used without TLS: anyone on the way can read passwords and payloads. Add ?sslmode=verify-full to the URL.`,
    { code: "ONCEBOX_POSTGRES_WITHOUT_TLS" },
  );
}
