import { abortable } from "../base/abortable.js";
import { defined } from "../base/defined.js";
import { memoisePromise } from "../base/memoise-promise.js";
import { requirePackage } from "../base/require-package.js";
import { refuseUnknown, requireDuration, requireName } from "../queue/arguments.js";
import { checkAll, requireOneOf } from "./check-all.js";
import { checkedInboxStore, type KeyOperations } from "./checked-inbox-store.js";
import type { KeyReport, LeasingInboxStore } from "./inbox-store.js";
import { defaultRetentionMs, retention } from "./key.js";
import {
  type KeyCollection,
  type MongoClient,
  type OpenMongoClient,
  openCollection,
  openMongoClient,
} from "./mongo/client.js";
import { retryDuplicateKey } from "./mongo/retry-duplicate-key.js";
import {
  begin,
  finished,
  heldBy,
  type KeyDocument,
  mark,
  released,
  renewal,
  report,
} from "./mongo/updates.js";

export interface MongoInboxStoreOptions {
  /** `mongodb://…` or `mongodb+srv://…`. The store opens a client of its own, and closes it. */
  readonly url?: string | undefined;
  /** A `MongoClient` of the package mongodb. The store does not close it. */
  readonly client?: MongoClient | undefined;
  /** By default the one that the URL names. */
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

const defaults = {
  collection: "oncebox_inbox_keys",
  retentionMs: defaultRetentionMs,
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
  const { timeoutMs, retentionMs, createIndex, clock, database, collection } = checked(options);
  if (options.client === undefined) requirePackage("mongodb", "The MongoDB inbox store");
  let opened: OpenMongoClient | undefined;
  const open = memoisePromise(async () => {
    opened = options.client === undefined ? await openMongoClient(options.url!, timeoutMs) : undefined;
    return openCollection(options.client ?? opened!, { database, collection }, createIndex);
  });
  const now = (): Date | "$$NOW" => clock?.() ?? "$$NOW";
  const on = <T>(signal: AbortSignal, work: (keys: KeyCollection) => Promise<T>): Promise<T> =>
    abortable(open().then(work), signal);

  const operations: KeyOperations = {
    isProcessed: (key, signal) => on(signal, (keys) => keys.exists({ _id: key, processedAt: { $ne: null } })),
    async markProcessed(key, signal) {
      await on(signal, (keys) =>
        retryDuplicateKey(() => keys.change({ _id: key }, mark(now(), retentionMs), true)),
      );
    },
    async tryBegin(key, lease, signal) {
      const found = await on(signal, (keys) =>
        retryDuplicateKey(() => keys.change({ _id: key }, begin(lease, now(), retentionMs), true)),
      );
      const { processedAt, leaseId, leaseUntil } = found!; // an upsert always returns a document
      if (processedAt) return { status: "Processed" };
      if (leaseId !== lease.leaseId) return { status: "Busy", expiresAt: leaseUntil ?? null };
      return { status: "Acquired", leaseId, expiresAt: leaseUntil! };
    },
    async renew(key, leaseId, leaseMs, signal) {
      const time = now();
      const changed = await on(signal, (keys) =>
        keys.change(heldBy(key, leaseId, time), renewal(leaseMs, time, retentionMs)),
      );
      return changed === null
        ? { status: "LeaseLost" }
        : { status: "Renewed", expiresAt: changed.leaseUntil! };
    },
    async finish(key, leaseId, signal) {
      const time = now();
      const isFinished = await on(signal, async (keys) => {
        const update = finished(leaseId, time, retentionMs);
        if ((await keys.change(heldBy(key, leaseId, time), update)) !== null) return true;
        return keys.exists({ _id: key, processedBy: leaseId });
      });
      return { status: isFinished ? "Processed" : "LeaseLost" };
    },
    async release(key, leaseId, signal) {
      const time = now();
      const changed = await on(signal, (keys) =>
        keys.change(heldBy(key, leaseId, time), released(time, retentionMs)),
      );
      return { status: changed === null ? "LeaseLost" : "Released" };
    },
    inspect: async (key, signal) =>
      reportOf(await on(signal, (keys) => keys.read<KeyDocument & { isHeld: boolean }>(report(key, now())))),
    async close() {
      await opened?.close();
    },
  };
  return checkedInboxStore(operations, timeoutMs);
}

function reportOf(found: (KeyDocument & { readonly isHeld: boolean }) | undefined): KeyReport {
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
  const filled = { ...defaults, ...defined(options) };
  checkAll(what, [
    () => requireOneOf(options, ["url", "client"]),
    () => requireName(filled.collection, "collection"),
    () => retention(filled.retentionMs),
    () => requireDuration(filled.timeoutMs, "timeoutMs"),
  ]);
  return filled;
}
