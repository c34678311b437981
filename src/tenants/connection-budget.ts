import { ArgumentRangeError, InvalidOperationError } from "../errors.js";
import { refuseUnknown, requireDuration } from "../queue/arguments.js";
import { abortable } from "../sql/abortable.js";

export interface ConnectionLimits {
  /** Connections of this instance to all databases together: 40 by default. */
  readonly perInstance?: number;
  /** Of these to one database server: 20 by default. */
  readonly perServer?: number;
  /** In the pool of one database: 2 by default, so that an acknowledgement need not wait for a claim. */
  readonly perDatabase?: number;
  /** How long a call waits for its turn before it fails: 15 s by default. */
  readonly waitMs?: number;
}

/** A pool that may be open, and is counted with all its connections while it is. */
export interface Pool {
  /** Undefined: there is no server, it is a file. */
  readonly server: string | undefined;
  readonly size: number;
  /** Resolves when the server has let go of its connections. */
  close(): Promise<void>;
}

export interface ConnectionBudget {
  /** Of one database's pool. */
  readonly perDatabase: number;
  /** Waits until this pool may be open; it stays so until `release`, and after that until its place is needed. */
  acquire(pool: Pool, signal?: AbortSignal): Promise<void>;
  release(pool: Pool): void;
  /** Closes it as soon as nobody uses it. */
  retire(pool: Pool): void;
  /** Resolves when every retired pool is closed. */
  settled(): Promise<void>;
  /** Connections that are counted now, of one server or of all. */
  taken(server?: string): number;
}

interface Seat {
  readonly pool: Pool;
  uses: number;
  closing: boolean;
}

interface Waiter {
  readonly pool: Pool;
  readonly grant: () => void;
}

/** Seats that a look at the waiting ones hands out or takes back: how it will be when those that close have closed. */
interface Outlook {
  total: number;
  readonly servers: Map<string, number>;
}

const defaults = { perInstance: 40, perServer: 20, perDatabase: 2, waitMs: 15_000 } as const;

/**
 * Caps the connections of an instance. A pool is opened when it is needed, and when there is no room for it the one
 * that was not used for the longest time is closed first; one in use never is.
 */
export function connectionBudget(limits: ConnectionLimits = {}): ConnectionBudget {
  const { perInstance, perServer, perDatabase, waitMs } = checked(limits);
  /** The least recently used first. */
  const seats = new Map<Pool, Seat>();
  const retired = new Set<Pool>();
  const closings = new Set<Promise<void>>();
  let waiting: Waiter[] = [];

  const taken = (server?: string): number => {
    let sum = 0;
    for (const { pool } of seats.values())
      if (server === undefined || pool.server === server) sum += pool.size;
    return sum;
  };

  const use = (seat: Seat): void => {
    seat.uses++;
    seats.delete(seat.pool);
    seats.set(seat.pool, seat);
  };

  const close = (seat: Seat): void => {
    seat.closing = true;
    const closing = seat.pool
      .close()
      .catch(() => {}) // it is gone in any case
      .then(() => {
        seats.delete(seat.pool);
        closings.delete(closing);
        serve();
      });
    closings.add(closing);
  };

  const idlest = (fits: (pool: Pool) => boolean): Seat | undefined => {
    for (const seat of seats.values()) if (seat.uses === 0 && !seat.closing && fits(seat.pool)) return seat;
    return undefined;
  };

  const outlook = (): Outlook => {
    const view: Outlook = { total: 0, servers: new Map() };
    for (const { pool, closing } of seats.values()) if (!closing) count(view, pool, pool.size);
    return view;
  };

  const makeRoom = (pool: Pool, view: Outlook): void => {
    const evict = (isOver: () => boolean, fits: (other: Pool) => boolean): void => {
      while (isOver()) {
        const seat = idlest(fits);
        if (seat === undefined) return;
        count(view, seat.pool, -seat.pool.size);
        close(seat);
      }
    };
    const { server, size } = pool;
    if (server !== undefined) {
      evict(
        () => (view.servers.get(server) ?? 0) + size > perServer,
        (other) => other.server === server,
      );
    }
    evict(
      () => view.total + size > perInstance,
      () => true,
    );
    count(view, pool, size);
  };

  const hasRoom = ({ server, size }: Pool): boolean =>
    taken() + size <= perInstance && (server === undefined || taken(server) + size <= perServer);

  /** In order: nobody takes what one before him waits for. */
  const serve = (): void => {
    const view = outlook();
    const fullServers = new Set<string | undefined>();
    let full = false;
    waiting = waiting.filter(({ pool, grant }) => {
      const seat = seats.get(pool);
      if (seat?.closing) return true;
      if (seat !== undefined) use(seat);
      else if (!full && !fullServers.has(pool.server) && hasRoom(pool)) {
        seats.set(pool, { pool, uses: 1, closing: false });
        count(view, pool, pool.size);
      } else {
        if (taken() + pool.size > perInstance) full = true;
        else fullServers.add(pool.server);
        makeRoom(pool, view);
        return true;
      }
      grant();
      return false;
    });
  };

  return {
    perDatabase,
    taken,
    async acquire(pool, signal) {
      const seat = seats.get(pool);
      if (seat !== undefined && !seat.closing) return use(seat);
      let waiter: Waiter | undefined;
      const granted = new Promise<void>((resolve) => {
        waiter = { pool, grant: resolve };
        waiting.push(waiter);
      });
      serve();
      if (!waiting.includes(waiter!)) return;
      const limit = timeLimit(waitMs);
      try {
        const either = signal === undefined ? limit.signal : AbortSignal.any([signal, limit.signal]);
        await abortable(granted, either);
      } catch (error) {
        if (waiting.includes(waiter!)) waiting = waiting.filter((other) => other !== waiter);
        else this.release(pool); // it came at the same moment
        throw error;
      } finally {
        limit.clear();
      }
    },
    release(pool) {
      const seat = seats.get(pool)!;
      seat.uses--;
      if (seat.uses > 0) return;
      if (retired.has(pool)) close(seat);
      else if (waiting.length > 0) serve();
    },
    retire(pool) {
      retired.add(pool);
      const seat = seats.get(pool);
      if (seat !== undefined && seat.uses === 0 && !seat.closing) close(seat);
    },
    async settled() {
      while (closings.size > 0) await Promise.all(closings);
    },
  };
}

function count(view: Outlook, { server }: Pool, size: number): void {
  view.total += size;
  if (server !== undefined) view.servers.set(server, (view.servers.get(server) ?? 0) + size);
}

function checked(limits: ConnectionLimits) {
  refuseUnknown(limits, Object.keys(defaults), "connections");
  const settings = { ...defaults, ...limits };
  const { perInstance, perServer, perDatabase, waitMs } = settings;
  const isCount = (value: unknown) => Number.isInteger(value) && (value as number) >= 1;
  const problems = Object.entries({ perInstance, perServer, perDatabase })
    .filter(([, value]) => !isCount(value))
    .map(([name]) => `${name} must be a whole number from 1 on`);
  if (perDatabase > Math.min(perInstance, perServer)) {
    problems.push("perDatabase must not be more than perInstance or perServer");
  }
  if (problems.length > 0) throw new ArgumentRangeError(`connections: ${problems.join("; ")}.`);
  requireDuration(waitMs, "connections.waitMs");
  return settings;
}

/** AbortSignal.timeout cannot be taken back, and there may be one for every call. */
function timeLimit(ms: number): { readonly signal: AbortSignal; readonly clear: () => void } {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(noRoom(ms)), ms);
  return { signal: controller.signal, clear: () => clearTimeout(timer) };
}

const noRoom = (ms: number) =>
  new InvalidOperationError(
    `No connection was free within ${ms} ms: all that connections.perInstance and perServer allow are in use. Raise them, or let fewer tenants run at once.`,
  );
