import { abortable } from "../../base/abortable.js";
import { ArgumentRangeError, InvalidOperationError } from "../../errors.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";

export interface ConnectionLimits {
  /** Connections of this instance to all servers together: 40 by default. */
  readonly perInstance?: number;
  /** Of these to one database server: 20 by default. */
  readonly perServer?: number;
  /** In the pool of one database: 2 by default, so that an acknowledgement need not wait for a claim. */
  readonly perDatabase?: number;
  /** SQLite files that are open at once: 200 by default, of three file handles each. */
  readonly files?: number;
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
  acquire(pool: Pool, signal?: AbortSignal, withinMs?: number): Promise<void>;
  /** The same for one that is open, and nothing for any other: answers whether it is. */
  acquireNow(pool: Pool): boolean;
  release(pool: Pool): void;
  /** Closes it as soon as nobody uses it. */
  retire(pool: Pool): void;
  /** Resolves when every retired pool is closed. */
  settled(): Promise<void>;
  /** Connections that are counted now, of one server or of all. */
  taken(server?: string): number;
  openFiles(): number;
}

interface Seat {
  readonly pool: Pool;
  uses: number;
  /** Which use of all was its last one. */
  lastUse: number;
  closing: boolean;
}

interface Waiter {
  readonly pool: Pool;
  readonly grant: () => void;
}

/** How many are taken of each thing that has a cap. */
type Counts = Map<string, number>;

const files = "files";
const instance = "instance";

/** What a pool takes part of: the instance's connections and its server's, or the open files. */
const capsOf = ({ server }: Pool): readonly string[] =>
  server === undefined ? [files] : [`server ${server}`, instance];

const defaults = { perInstance: 40, perServer: 20, perDatabase: 2, files: 200, waitMs: 15_000 } as const;

/**
 * Caps the connections of an instance. A pool is opened when it is needed, and when there is no room for it the one
 * that was not used for the longest time is closed first; one in use never is.
 */
export function connectionBudget(limits: ConnectionLimits = {}): ConnectionBudget {
  const settings = checked(limits);
  const { perDatabase, waitMs } = settings;
  const seats = new Map<Pool, Seat>();
  let allUses = 0;
  const retired = new Set<Pool>();
  const closings = new Set<Promise<void>>();
  let settling: (() => void)[] = [];
  let waiting: Waiter[] = [];

  const mostOf = (cap: string): number =>
    cap === files ? settings.files : cap === instance ? settings.perInstance : settings.perServer;

  const counts = (isCounted: (seat: Seat) => boolean = () => true): Counts => {
    const sums: Counts = new Map();
    for (const seat of seats.values()) if (isCounted(seat)) add(sums, seat.pool, seat.pool.size);
    return sums;
  };

  const use = (seat: Seat): void => {
    seat.uses++;
    seat.lastUse = ++allUses;
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
        if (closings.size > 0 || isRetiredInUse()) return;
        for (const settled of settling) settled();
        settling = [];
      });
    closings.add(closing);
  };

  const isRetiredInUse = (): boolean => [...seats.keys()].some((pool) => retired.has(pool));

  const idlestOf = (cap: string): Seat | undefined => {
    let idlest: Seat | undefined;
    for (const seat of seats.values()) {
      const isOlder = idlest === undefined || seat.lastUse < idlest.lastUse;
      if (isOlder && seat.uses === 0 && !seat.closing && capsOf(seat.pool).includes(cap)) idlest = seat;
    }
    return idlest;
  };

  const isOver = (sums: Counts, pool: Pool, cap: string): boolean =>
    (sums.get(cap) ?? 0) + pool.size > mostOf(cap);

  /** `later`: how it will be when those that close have closed, and those before this one have what they wait for. */
  const makeRoom = (pool: Pool, later: Counts): void => {
    for (const cap of capsOf(pool)) {
      while (isOver(later, pool, cap)) {
        const seat = idlestOf(cap);
        if (seat === undefined) break;
        add(later, seat.pool, -seat.pool.size);
        close(seat);
      }
    }
    add(later, pool, pool.size);
  };

  /** In order: nobody takes what one before him waits for. */
  const serve = (): void => {
    const now = counts();
    const later = counts((seat) => !seat.closing);
    const awaited = new Set<string>();
    waiting = waiting.filter(({ pool, grant }) => {
      const seat = seats.get(pool);
      if (seat?.closing) return true;
      if (seat !== undefined) use(seat);
      else {
        const missing = capsOf(pool).filter((cap) => awaited.has(cap) || isOver(now, pool, cap));
        if (missing.length > 0) {
          for (const cap of missing) awaited.add(cap);
          makeRoom(pool, later);
          return true;
        }
        seats.set(pool, { pool, uses: 1, lastUse: ++allUses, closing: false });
        for (const sums of [now, later]) add(sums, pool, pool.size);
      }
      grant();
      return false;
    });
  };

  return {
    perDatabase,
    taken: (server) => counts().get(server === undefined ? instance : `server ${server}`) ?? 0,
    openFiles: () => counts().get(files) ?? 0,
    async acquire(pool, signal, withinMs = waitMs) {
      if (this.acquireNow(pool)) return;
      let waiter: Waiter | undefined;
      const granted = new Promise<void>((resolve) => {
        waiter = { pool, grant: resolve };
        waiting.push(waiter);
      });
      serve();
      if (!waiting.includes(waiter!)) return;
      const limit = timeLimit(Math.min(withinMs, waitMs));
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
    acquireNow(pool) {
      const seat = seats.get(pool);
      if (seat === undefined || seat.closing) return false;
      use(seat);
      return true;
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
      if (closings.size > 0 || isRetiredInUse())
        await new Promise<void>((resolve) => {
          settling.push(resolve);
        });
    },
  };
}

function add(sums: Counts, pool: Pool, size: number): void {
  for (const cap of capsOf(pool)) sums.set(cap, (sums.get(cap) ?? 0) + size);
}

function checked(limits: ConnectionLimits) {
  refuseUnknown(limits, Object.keys(defaults), "connections");
  const settings = { ...defaults, ...limits };
  const { perInstance, perServer, perDatabase, waitMs, files: mostFiles } = settings;
  const isCount = (value: unknown) => Number.isInteger(value) && (value as number) >= 1;
  const problems = Object.entries({ perInstance, perServer, perDatabase, files: mostFiles })
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

/** Nobody's fault but the caps': who gets it may wait again. */
export class NoRoomError extends InvalidOperationError {
  override readonly name = "NoRoomError";
}

const noRoom = (ms: number) =>
  new NoRoomError(
    `No connection was free within ${Math.round(ms)} ms: all that connections.perInstance, perServer and files allow are in use. Raise them, or let fewer tenants run at once.`,
  );
