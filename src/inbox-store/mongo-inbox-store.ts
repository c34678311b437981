import { abortable, memoisePromise } from "../base/async.js";
import { omitUndefined } from "../base/defined.js";
import { loadPackage, requirePackage, rethrow } from "../base/require-package.js";
import { InvalidArgumentError } from "../errors.js";
import { refuseUnknown, requireDuration, requireName } from "../queue/arguments.js";
import {
  checkAll,
  checkedInboxStore,
  type KeyCalls,
  type KeyReport,
  type LeasingInboxStore,
  longestRetentionMs,
  requireOneOf,
  retention,
  type WantedLease,
} from "./inbox-store.js";

/** Options of an inbox store on MongoDB. */
export interface MongoInboxStoreOptions {
  /** `mongodb://…` or `mongodb+srv://…`. The store opens a client of its own, and closes it. */
  readonly url?: string | undefined;
  /** A `MongoClient` of the package mongodb. The store does not close it. */
  readonly client?: MongoClient | undefined;
  /** By default that of the URL. */
  readonly database?: string | undefined;
  /** `oncebox_inbox_keys` by default. */
  readonly collection?: string | undefined;
  /** How long processed keys are kept, and keys that nobody holds: 7 to 30 days, 30 by default. */
  readonly retentionMs?: number | undefined;
  /** The longest time of one call: 10 s by default. */
  readonly timeoutMs?: number | undefined;
  /** `false` where the user may not create an index; then create it before: see the docs. */
  readonly createIndex?: boolean | undefined;
  /** For tests: replaces the server's time. MongoDB still removes documents by its own time. */
  readonly clock?: (() => Date) | undefined;
}

/** The part of a collection that the store uses. */
export interface MongoCollection {
  findOne(filter: object): Promise<object | null>;
  findOneAndUpdate(filter: object, update: object[], options: object): Promise<object | null>;
  aggregate(pipeline: object[]): { toArray(): Promise<object[]> };
  createIndex(keys: Record<string, 1>, options: object): Promise<unknown>;
}

/** The part of a `MongoClient` that the store uses. */
export interface MongoClient {
  db(name?: string): { collection(name: string, options: object): MongoCollection };
}

const defaults = {
  collection: "oncebox_inbox_keys",
  retentionMs: longestRetentionMs,
  timeoutMs: 10_000,
  createIndex: true,
} as const;
const known = ["url", "client", "database", "retentionMs", "timeoutMs", "collection", "createIndex", "clock"];

/**
 * An inbox store on MongoDB. Needs MongoDB 4.2 or later, and the package mongodb, 6 or later.
 *
 * @example
 * const store = createMongoInboxStore({ url: "mongodb://localhost/shop" });
 */
export function createMongoInboxStore(options: MongoInboxStoreOptions): LeasingInboxStore {
  const filled = checked(options);
  const { timeoutMs, retentionMs, clock, client, url = "" } = filled;
  if (client === undefined) requirePackage("mongodb", user);
  let close = async (): Promise<void> => {};
  const open = memoisePromise(async () => {
    if (client !== undefined) return openCollection(client, filled);
    const opened = await openMongo(url, timeoutMs);
    close = () => opened.close();
    return openCollection(opened, filled);
  });
  const now = (): Date | "$$NOW" => clock?.() ?? "$$NOW";
  const on = <T>(signal: AbortSignal | undefined, work: (keys: KeyCollection) => Promise<T>): Promise<T> =>
    abortable(open().then(work), signal);

  const calls: KeyCalls = {
    isProcessed: (key, signal) => on(signal, (keys) => keys.exists({ _id: key, processedAt: { $ne: null } })),
    async markProcessed(key, signal) {
      await on(signal, (keys) => keys.upsert(key, markUpdate(now(), retentionMs)));
    },
    async tryBegin(key, lease, signal) {
      const found = await on(signal, (keys) => keys.upsert(key, beginUpdate(lease, now(), retentionMs)));
      const { processedAt, leaseId, leaseUntil } = found!; // an upsert always returns a document
      if (processedAt) return { status: "Processed" };
      if (leaseId !== lease.leaseId) return { status: "Busy", expiresAt: leaseUntil ?? null };
      return { status: "Acquired", leaseId, expiresAt: leaseUntil! };
    },
    async renew(key, leaseId, leaseMs, signal) {
      const time = now();
      const changes = { leaseUntil: later(time, leaseMs), expiresAt: later(time, leaseMs + retentionMs) };
      const changed = await on(signal, (keys) => keys.changeHeld(key, leaseId, time, changes));
      return changed === null
        ? { status: "LeaseLost" }
        : { status: "Renewed", expiresAt: changed.leaseUntil! };
    },
    async finish(key, leaseId, signal) {
      const time = now();
      const processed = { processedAt: time, processedBy: literal(leaseId) };
      const changes = { ...processed, ...noLease, expiresAt: later(time, retentionMs) };
      const isFinished = await on(signal, async (keys) => {
        if ((await keys.changeHeld(key, leaseId, time, changes)) !== null) return true;
        return keys.exists({ _id: key, processedBy: leaseId });
      });
      return { status: isFinished ? "Processed" : "LeaseLost" };
    },
    async release(key, leaseId, signal) {
      const time = now();
      const changes = { ...noLease, expiresAt: later(time, retentionMs) };
      const changed = await on(signal, (keys) => keys.changeHeld(key, leaseId, time, changes));
      return { status: changed === null ? "LeaseLost" : "Released" };
    },
    inspect: async (key, signal) => reportOf(await on(signal, (keys) => keys.inspect(key, now()))),
    close: () => close(),
  };
  return checkedInboxStore(calls, { timeoutMs });
}

const user = "The MongoDB inbox store";

/** Connects at the first call. No error quotes the URL, which may contain a password. */
async function openMongo(url: string, timeoutMs: number): Promise<MongoClient & { close(): Promise<void> }> {
  if (!/^mongodb(\+srv)?:\/\//i.test(url))
    throw new InvalidArgumentError(
      "The MongoDB URL must be mongodb://user:password@host:port/database or mongodb+srv://…",
    );
  const { MongoClient: Client } = await loadPackage("mongodb", () => import("mongodb").catch(rethrow), user);
  return new Client(url, { serverSelectionTimeoutMS: timeoutMs });
}

/**
 * A write must survive the loss of a server, or two callers could get one lease. So a majority has it before a
 * call returns, whatever the client's own settings are.
 */
const concerns = {
  writeConcern: { w: "majority" },
  readConcern: { level: "majority" },
  readPreference: "primary",
} as const;

type KeyCollection = Awaited<ReturnType<typeof openCollection>>;

async function openCollection(
  client: MongoClient,
  { database, collection: name, createIndex }: ReturnType<typeof checked>,
) {
  const collection = client.db(database).collection(name, concerns);
  // The key itself is the _id, whose index is unique. Creating an index that exists changes nothing.
  if (createIndex) await collection.createIndex({ expiresAt: 1 }, { expireAfterSeconds: 0 });
  const change = (filter: object, update: Pipeline, upsert: boolean) => {
    const options = { upsert, returnDocument: "after" };
    return collection.findOneAndUpdate(filter, [...update], options) as Promise<KeyDocument | null>;
  };
  return {
    upsert: (key: string, update: Pipeline) => retryDuplicateKey(() => change({ _id: key }, update, true)),
    /** Changes the key while this lease holds it. Returns null when it does not. */
    changeHeld: (key: string, leaseId: string, time: Expression, changes: object) =>
      change({ _id: key, leaseId, $expr: isHeldAt(time) }, [{ $set: changes }], false),
    exists: async (filter: object) => (await collection.findOne(filter)) !== null,
    /** Reads the key, and whether it is held, by the server's time. */
    async inspect(key: string, time: Expression) {
      const pipeline = [{ $match: { _id: key } }, { $set: { isHeld: isHeldAt(time) } }];
      return (await collection.aggregate(pipeline).toArray())[0] as HeldDocument | undefined;
    },
  };
}

const duplicateKey = 11_000;
const maxTries = 5;

/**
 * Two upserts of one new key at the same time: MongoDB may report to one of them that the key exists. That one wrote
 * nothing, and finds the other's document when it is repeated. Only a removal in between could make it fail again.
 */
async function retryDuplicateKey<T>(upsert: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await upsert();
    } catch (error) {
      if ((error as { code?: unknown }).code !== duplicateKey || tries === maxTries) throw error;
    }
  }
}

function reportOf(found: HeldDocument | undefined): KeyReport {
  if (found === undefined) return { status: "Unknown" };
  const { processedAt, isHeld, attempts = 0, firstSeenAt, lastSeenAt, leaseUntil, owner } = found;
  return {
    status: processedAt ? "Processed" : isHeld ? "Leased" : "Free",
    attempts,
    firstSeenAt,
    lastSeenAt,
    leaseUntil: isHeld ? (leaseUntil ?? null) : null,
    owner: owner ?? null,
  };
}

function checked(options: MongoInboxStoreOptions) {
  const what = "createMongoInboxStore";
  refuseUnknown(options, known, what);
  const filled = { ...defaults, ...omitUndefined(options) };
  checkAll(what, [
    () => requireOneOf(options, ["url", "client"]),
    () => requireName(filled.collection, "collection"),
    () => retention(filled.retentionMs),
    () => requireDuration(filled.timeoutMs, "timeoutMs"),
  ]);
  return filled;
}

/** A key as a document. Times are the server's. */
interface KeyDocument {
  readonly _id: string;
  readonly processedAt?: Date | null;
  /** The lease that finished it. */
  readonly processedBy?: string | null;
  readonly leaseId?: string | null;
  readonly leaseUntil?: Date | null;
  readonly owner?: string | null;
  readonly attempts?: number;
  readonly firstSeenAt: Date;
  readonly lastSeenAt: Date;
  /** The TTL index removes the document after this time. */
  readonly expiresAt: Date;
}

type HeldDocument = KeyDocument & { readonly isHeld: boolean };

type Expression = unknown;
type Pipeline = readonly Readonly<Record<string, Expression>>[];

/** Values of callers stand behind $literal: an owner such as "$processedBy" would be read as a field. */
const literal = (value: unknown): Expression => ({ $literal: value });
const later = (time: Expression, ms: number): Expression => ({ $add: [time, ms] });

const noLease = { leaseId: null, leaseUntil: null };

const isProcessed: Expression = { $ne: [{ $ifNull: ["$processedAt", null] }, null] };
const isHeldAt = (now: Expression): Expression => ({
  $gt: [{ $ifNull: ["$leaseUntil", new Date(0)] }, now],
});

const noChange: Expression = literal({});
const merged = (...changes: readonly Expression[]): Pipeline => [
  { $replaceWith: { $mergeObjects: ["$$ROOT", ...changes] } },
];

/**
 * Leases an available or new key. The document afterwards says who holds it: the lease id was made for this call. A processed key
 * that is asked for is kept for another retention, since its broker still delivers it.
 */
function beginUpdate(lease: WantedLease, now: Expression, retentionMs: number): Pipeline {
  const leased = {
    leaseId: literal(lease.leaseId),
    leaseUntil: later(now, lease.leaseMs),
    owner: literal(lease.owner),
    attempts: { $add: [{ $ifNull: ["$attempts", 0] }, 1] },
    firstSeenAt: { $ifNull: ["$firstSeenAt", now] },
    expiresAt: later(now, lease.leaseMs + retentionMs),
  };
  const kept = { expiresAt: later(now, retentionMs) };
  const ifAvailable = { $cond: [isHeldAt(now), noChange, leased] };
  return merged({ lastSeenAt: now }, { $cond: [isProcessed, kept, ifAvailable] });
}

/** The first processing counts: a repeated mark only says that the key was seen. */
const markUpdate = (now: Expression, retentionMs: number): Pipeline =>
  merged(
    { lastSeenAt: now },
    {
      $cond: [
        isProcessed,
        noChange,
        {
          processedAt: now,
          ...noLease,
          firstSeenAt: { $ifNull: ["$firstSeenAt", now] },
          expiresAt: later(now, retentionMs),
        },
      ],
    },
  );
