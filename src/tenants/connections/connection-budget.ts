import { abortable, withinTime } from "../../base/async.js";
import { ArgumentRangeError, InvalidOperationError } from "../../errors.js";
import { refuseUnknown, requireDuration } from "../../queue/arguments.js";

/** A pool that may be open. While it is, it takes as many connection slots as it may have connections. */
export interface Pool {
  /** Undefined for a file, which has no server. */
  readonly server: string | undefined;
  readonly size: number;
  /** Resolves when the server has closed the connections. */
  close(): Promise<void>;
}

/** How many connections an instance may have to all tenants. */
export interface ConnectionLimits {
  /** Connections of this instance to all servers together: 40 by default. */
  readonly perInstance?: number;
  /** Connections of this instance to one database server: 20 by default. */
  readonly perServer?: number;
  /** Connections in the pool of one database: 2 by default, so that an acknowledgement need not wait for a claim. */
  readonly perDatabase?: number;
  /** SQLite files that are open at once: 200 by default, of three file handles each. */
  readonly files?: number;
  /** How long a call waits for a free connection before it fails: 15 s by default. */
  readonly waitMs?: number;
}

interface OpenPool {
  readonly pool: Pool;
  uses: number;
  /** The number of its last use among all uses: the lowest is the pool that was not used for the longest time. */
  lastUse: number;
  closing: boolean;
}

interface Waiter {
  readonly pool: Pool;
  readonly grant: () => void;
}

/** More than a driver of ours takes to close a pool whose server is frozen. */
const longestCloseMs = 10_000;

/**
 * Limits the connections of an instance. A pool opens when it is needed. When its slots are not free, the pool that was
 * not used for the longest time is closed first; a pool in use is never closed.
 */
export class ConnectionBudget {
  private readonly limits: Required<ConnectionLimits>;
  private readonly open = new Map<Pool, OpenPool>();
  private readonly retired = new WeakSet<Pool>();
  /** First come, first served. */
  private waiting: Waiter[] = [];
  private useCount = 0;
  private readonly onSettled: (() => void)[] = [];

  constructor(limits: ConnectionLimits = {}) {
    this.limits = requireConnectionLimits(limits);
  }

  /** The size of one database's pool. */
  get perDatabase(): number {
    return this.limits.perDatabase;
  }

  /** Waits until this pool may be open. It stays open until `release`, and after that until its slots are needed. */
  async acquire(pool: Pool, signal?: AbortSignal, withinMs = this.limits.waitMs): Promise<void> {
    const entry = this.open.get(pool);
    if (entry !== undefined && !entry.closing) return this.use(entry);
    let grant = (): void => {};
    const granted = new Promise<void>((resolve) => {
      grant = resolve;
    });
    const waiter: Waiter = { pool, grant };
    this.waiting.push(waiter);
    this.serveWaiting();
    const ms = Math.min(withinMs, this.limits.waitMs);
    try {
      await withinTime(ms, abortable(granted, signal), () => noFreeConnection(ms));
    } catch (error) {
      if (this.waiting.includes(waiter)) this.waiting = this.waiting.filter((other) => other !== waiter);
      else this.release(pool); // it was granted at the same moment
      throw error;
    }
  }

  release(pool: Pool): void {
    const entry = this.open.get(pool)!;
    entry.uses--;
    if (entry.uses > 0) return;
    if (this.retired.has(pool)) void this.close(entry);
    else if (this.waiting.length > 0) this.serveWaiting();
  }

  /** Closes the pool after its last use. */
  retire(pool: Pool): void {
    this.retired.add(pool);
    const entry = this.open.get(pool);
    if (entry?.uses === 0 && !entry.closing) void this.close(entry);
  }

  /** Resolves when every retired pool is closed. */
  async settled(): Promise<void> {
    if (this.isSettled()) return;
    await new Promise<void>((resolve) => {
      this.onSettled.push(resolve);
    });
  }

  /** The connection slots that are taken, of one server or of all. */
  taken(server?: string): number {
    return this.takenSlots().get(server === undefined ? instance : serverCap(server)) ?? 0;
  }

  openFiles(): number {
    return this.takenSlots().get(files) ?? 0;
  }

  private use(entry: OpenPool): void {
    entry.uses++;
    entry.lastUse = ++this.useCount;
  }

  /** Grants slots to waiting calls in order: no call takes a slot that one before it waits for. */
  private serveWaiting(): void {
    const now = this.takenSlots();
    /** The slots that will be taken when closing pools are closed and the calls before have theirs. */
    const later = this.takenSlots((entry) => !entry.closing);
    const awaited = new Set<string>();
    this.waiting = this.waiting.filter(({ pool, grant }) => {
      const entry = this.open.get(pool);
      if (entry?.closing) return true;
      if (entry !== undefined) this.use(entry);
      else {
        const missing = capsOf(pool).filter((cap) => awaited.has(cap) || this.isOver(now, pool, cap));
        if (missing.length > 0) {
          for (const cap of missing) awaited.add(cap);
          this.makeRoom(pool, later);
          return true;
        }
        const opened = { pool, uses: 0, lastUse: 0, closing: false };
        this.open.set(pool, opened);
        this.use(opened);
        for (const taken of [now, later]) add(taken, pool, pool.size);
      }
      grant();
      return false;
    });
  }

  /** Closes unused pools until `pool` has its slots, as far as there are such. */
  private makeRoom(pool: Pool, later: TakenSlots): void {
    for (const cap of capsOf(pool)) {
      while (this.isOver(later, pool, cap)) {
        const entry = this.longestUnused(cap);
        if (entry === undefined) break;
        add(later, entry.pool, -entry.pool.size);
        void this.close(entry);
      }
    }
    add(later, pool, pool.size);
  }

  private longestUnused(cap: string): OpenPool | undefined {
    let found: OpenPool | undefined;
    for (const entry of this.open.values()) {
      const isOlder = found === undefined || entry.lastUse < found.lastUse;
      if (isOlder && entry.uses === 0 && !entry.closing && capsOf(entry.pool).includes(cap)) found = entry;
    }
    return found;
  }

  private async close(entry: OpenPool): Promise<void> {
    entry.closing = true;
    // Its slots come back whatever happens: a driver that cannot close must not take them from the others for ever.
    await withinTime(longestCloseMs, entry.pool.close(), () => new Error("late")).catch(() => {});
    this.open.delete(entry.pool);
    this.serveWaiting();
    if (this.isSettled()) for (const settle of this.onSettled.splice(0)) settle();
  }

  private isSettled(): boolean {
    return ![...this.open.values()].some(({ pool, closing }) => closing || this.retired.has(pool));
  }

  private takenSlots(isCounted: (entry: OpenPool) => boolean = () => true): TakenSlots {
    const taken: TakenSlots = new Map();
    for (const entry of this.open.values()) if (isCounted(entry)) add(taken, entry.pool, entry.pool.size);
    return taken;
  }

  private isOver(taken: TakenSlots, pool: Pool, cap: string): boolean {
    const { files: maxFiles, perInstance, perServer } = this.limits;
    const most = cap === files ? maxFiles : cap === instance ? perInstance : perServer;
    return (taken.get(cap) ?? 0) + pool.size > most;
  }
}

/** The taken slots by cap. A cap is "files", "instance" or one server's. */
type TakenSlots = Map<string, number>;

const files = "files";
const instance = "instance";
const serverCap = (server: string): string => `server ${server}`;

const capsOf = ({ server }: Pool): readonly string[] =>
  server === undefined ? [files] : [serverCap(server), instance];

function add(taken: TakenSlots, pool: Pool, slots: number): void {
  for (const cap of capsOf(pool)) taken.set(cap, (taken.get(cap) ?? 0) + slots);
}

/** No connection slot became free in time. The caller may wait again. */
export class NoFreeConnectionError extends InvalidOperationError {
  override readonly name = "NoFreeConnectionError";
}

const noFreeConnection = (ms: number) =>
  new NoFreeConnectionError(
    `No connection was free within ${Math.round(ms)} ms: all that connections.perInstance, perServer and files allow are in use. Raise them, or let fewer tenants run at once.`,
  );

const defaults = { perInstance: 40, perServer: 20, perDatabase: 2, files: 200, waitMs: 15_000 } as const;

/** The limits with their defaults. Throws one error with everything that is wrong. */
function requireConnectionLimits(limits: ConnectionLimits): Required<ConnectionLimits> {
  refuseUnknown(limits, Object.keys(defaults), "connections");
  const all = { ...defaults, ...limits };
  const { waitMs, ...counts } = all;
  const isCount = (value: unknown) => Number.isInteger(value) && (value as number) >= 1;
  const problems = Object.entries(counts)
    .filter(([, value]) => !isCount(value))
    .map(([name, value]) => `${name} must be a whole number from 1 on, not ${String(value)}`);
  if (all.perDatabase > Math.min(all.perInstance, all.perServer)) {
    problems.push("perDatabase must not be more than perInstance or perServer");
  }
  if (problems.length > 0) throw new ArgumentRangeError(`connections: ${problems.join("; ")}.`);
  requireDuration(waitMs, "connections.waitMs");
  return all;
}
