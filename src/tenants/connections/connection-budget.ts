import { abortable, withinTime } from "../../base/timers.js";
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

export interface ConnectionBudget {
  /** The size of one database's pool. */
  readonly perDatabase: number;
  /** Waits until this pool may be open. It stays open until `release`, and after that until its slots are needed. */
  acquire(pool: Pool, signal?: AbortSignal, withinMs?: number): Promise<void>;
  release(pool: Pool): void;
  /** Closes the pool after its last use. */
  retire(pool: Pool): void;
  /** Resolves when every retired pool is closed. */
  settled(): Promise<void>;
  /** The connection slots that are taken, of one server or of all. */
  taken(server?: string): number;
  openFiles(): number;
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

interface BudgetState {
  readonly limits: Required<ConnectionLimits>;
  readonly open: Map<Pool, OpenPool>;
  readonly retired: WeakSet<Pool>;
  /** First come, first served. */
  waiting: Waiter[];
  useCount: number;
  onSettled: (() => void)[];
}

/** The taken slots by cap. A cap is "files", "instance" or one server's. */
type TakenSlots = Map<string, number>;

/** More than a driver of ours takes to close a pool whose server is frozen. */
const longestCloseMs = 10_000;

const files = "files";
const instance = "instance";
const serverCap = (server: string): string => `server ${server}`;

const capsOf = ({ server }: Pool): readonly string[] =>
  server === undefined ? [files] : [serverCap(server), instance];

/**
 * Limits the connections of an instance. A pool opens when it is needed. When its slots are not free, the pool that was
 * not used for the longest time is closed first; a pool in use is never closed.
 */
export function connectionBudget(limits: ConnectionLimits = {}): ConnectionBudget {
  const state: BudgetState = {
    limits: requireConnectionLimits(limits),
    open: new Map(),
    retired: new WeakSet(),
    waiting: [],
    useCount: 0,
    onSettled: [],
  };
  const { perDatabase, waitMs } = state.limits;
  return {
    perDatabase,
    taken: (server) => takenSlots(state).get(server === undefined ? instance : serverCap(server)) ?? 0,
    openFiles: () => takenSlots(state).get(files) ?? 0,
    acquire: (pool, signal, withinMs = waitMs) => acquire(state, pool, signal, Math.min(withinMs, waitMs)),
    release: (pool) => release(state, pool),
    retire(pool) {
      state.retired.add(pool);
      const entry = state.open.get(pool);
      if (entry?.uses === 0 && !entry.closing) void close(state, entry);
    },
    async settled() {
      if (isSettled(state)) return;
      await new Promise<void>((resolve) => {
        state.onSettled.push(resolve);
      });
    },
  };
}

async function acquire(state: BudgetState, pool: Pool, signal: AbortSignal | undefined, withinMs: number) {
  const entry = state.open.get(pool);
  if (entry !== undefined && !entry.closing) return use(state, entry);
  let grant = (): void => {};
  const granted = new Promise<void>((resolve) => {
    grant = resolve;
  });
  const waiter: Waiter = { pool, grant };
  state.waiting.push(waiter);
  serveWaiting(state);
  try {
    await withinTime(withinMs, abortable(granted, signal), () => noFreeConnection(withinMs));
  } catch (error) {
    if (state.waiting.includes(waiter)) state.waiting = state.waiting.filter((other) => other !== waiter);
    else release(state, pool); // it was granted at the same moment
    throw error;
  }
}

function use(state: BudgetState, entry: OpenPool): void {
  entry.uses++;
  entry.lastUse = ++state.useCount;
}

function release(state: BudgetState, pool: Pool): void {
  const entry = state.open.get(pool)!;
  entry.uses--;
  if (entry.uses > 0) return;
  if (state.retired.has(pool)) void close(state, entry);
  else if (state.waiting.length > 0) serveWaiting(state);
}

/** Grants slots to waiting calls in order: no call takes a slot that one before it waits for. */
function serveWaiting(state: BudgetState): void {
  const now = takenSlots(state);
  /** The slots that will be taken when closing pools are closed and the calls before have theirs. */
  const later = takenSlots(state, (entry) => !entry.closing);
  const awaited = new Set<string>();
  state.waiting = state.waiting.filter(({ pool, grant }) => {
    const entry = state.open.get(pool);
    if (entry?.closing) return true;
    if (entry !== undefined) use(state, entry);
    else {
      const missing = capsOf(pool).filter((cap) => awaited.has(cap) || isOver(state, now, pool, cap));
      if (missing.length > 0) {
        for (const cap of missing) awaited.add(cap);
        makeRoom(state, pool, later);
        return true;
      }
      const opened = { pool, uses: 0, lastUse: 0, closing: false };
      state.open.set(pool, opened);
      use(state, opened);
      for (const taken of [now, later]) add(taken, pool, pool.size);
    }
    grant();
    return false;
  });
}

/** Closes unused pools until `pool` has its slots, as far as there are such. */
function makeRoom(state: BudgetState, pool: Pool, later: TakenSlots): void {
  for (const cap of capsOf(pool)) {
    while (isOver(state, later, pool, cap)) {
      const entry = longestUnused(state, cap);
      if (entry === undefined) break;
      add(later, entry.pool, -entry.pool.size);
      void close(state, entry);
    }
  }
  add(later, pool, pool.size);
}

function longestUnused({ open }: BudgetState, cap: string): OpenPool | undefined {
  let found: OpenPool | undefined;
  for (const entry of open.values()) {
    const isOlder = found === undefined || entry.lastUse < found.lastUse;
    if (isOlder && entry.uses === 0 && !entry.closing && capsOf(entry.pool).includes(cap)) found = entry;
  }
  return found;
}

async function close(state: BudgetState, entry: OpenPool): Promise<void> {
  entry.closing = true;
  // Its slots come back whatever happens: a driver that cannot close must not take them from the others for ever.
  await withinTime(longestCloseMs, entry.pool.close(), () => new Error("late")).catch(() => {});
  state.open.delete(entry.pool);
  serveWaiting(state);
  if (!isSettled(state)) return;
  for (const settle of state.onSettled.splice(0)) settle();
}

const isSettled = ({ open, retired }: BudgetState): boolean =>
  ![...open.values()].some(({ pool, closing }) => closing || retired.has(pool));

function takenSlots({ open }: BudgetState, isCounted: (entry: OpenPool) => boolean = () => true): TakenSlots {
  const taken: TakenSlots = new Map();
  for (const entry of open.values()) if (isCounted(entry)) add(taken, entry.pool, entry.pool.size);
  return taken;
}

function add(taken: TakenSlots, pool: Pool, slots: number): void {
  for (const cap of capsOf(pool)) taken.set(cap, (taken.get(cap) ?? 0) + slots);
}

function isOver({ limits }: BudgetState, taken: TakenSlots, pool: Pool, cap: string): boolean {
  const most = cap === files ? limits.files : cap === instance ? limits.perInstance : limits.perServer;
  return (taken.get(cap) ?? 0) + pool.size > most;
}

/** No connection slot became free in time. The caller may wait again. */
export class NoFreeConnectionError extends InvalidOperationError {
  override readonly name = "NoFreeConnectionError";
}

const noFreeConnection = (ms: number) =>
  new NoFreeConnectionError(
    `No connection was free within ${Math.round(ms)} ms: all that connections.perInstance, perServer and files allow are in use. Raise them, or let fewer tenants run at once.`,
  );

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
