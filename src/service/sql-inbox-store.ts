import { omitUndefined } from "../base/defined.js";
import type { LoggerOption } from "../base/logger.js";
import { yieldToEventLoop } from "../base/timers.js";
import { isGuid } from "../base/uuid.js";
import { receiveBatching } from "../inbox/receive-batching.js";
import { optionalCount, refuseUnknown, requireBatchSize, requireName } from "../queue/arguments.js";
import type { CallOptions, PurgeOptions, PurgeResult } from "../queue/work-store.js";
import type { Database, KeyStatements } from "../sql/dialect.js";
import { isTrue, type SqlParams, type SqlRow, type SqlStatement } from "../sql/driver.js";
import { migrate } from "../sql/migrate.js";
import { type StatementRunner, statementRunner } from "../sql/statement-runner.js";
import { defaults, resolveStoreOptions } from "../sql/store-options.js";
import {
  defaultLeaseMs,
  type KeyReport,
  type LeasingInboxStore,
  newLeaseId,
  optionalOwner,
  requireKey,
  requireLeaseId,
  requireLeaseMs,
  retention,
  type TryBeginResult,
} from "./inbox-store.js";

export interface SqlInboxStoreOptions {
  /** Tells the keys of several stores in one table apart; "inbox-service" by default. */
  readonly source?: string | undefined;
  /** As for `createInbox`. */
  readonly schema?: string | undefined;
  readonly table?: string | undefined;
  readonly enableSchemaDeployment?: boolean | undefined;
  /** How long `purge` keeps processed keys: 7 to 30 days, 30 by default. */
  readonly retentionMs?: number | undefined;
  readonly logger?: LoggerOption | undefined;
  /** Names the store in logs. */
  readonly id?: string | undefined;
  /** For tests: the time instead of the database's. */
  readonly clock?: (() => Date) | undefined;
}

export interface SqlInboxStore extends LeasingInboxStore {
  /** Deploys the schema when `enableSchemaDeployment` is set; does nothing otherwise. */
  init(options?: CallOptions): Promise<void>;
  /**
   * Deletes the store's keys that were processed before the retention, and those that were never finished and that nobody
   * has held since then, unless they were asked for since. Short batches; run it by a timer.
   */
  purge(options?: PurgeKeysOptions): Promise<PurgeResult>;
}

const known = ["source", "schema", "table", "enableSchemaDeployment", "retentionMs", "logger", "id", "clock"];

/**
 * An inbox store on a database. Its keys are in a table beside the inbox, under one source. Does no I/O until it is used.
 *
 * @example
 * const store = createSqlInboxStore(db);
 * const begun = await store.tryBegin("orders:billing:OrderPlaced:42");
 * if (begun.status === "Acquired") await store.finish("orders:billing:OrderPlaced:42", begun.leaseId);
 */
export function createSqlInboxStore(db: Database, options: SqlInboxStoreOptions = {}): SqlInboxStore {
  refuseUnknown(options, known, "inbox store");
  const { source = "inbox-service", retentionMs, ...given } = options;
  requireName(source, "source");
  const keptMs = retention(retentionMs);
  const resolved = resolveStoreOptions<never>(db, "inbox", omitUndefined(given));
  const { schema, table, logger } = resolved;
  const runner = statementRunner(db, "inbox", resolved, () =>
    migrate(db, { ...(schema === "" ? {} : { schema }), inbox: table, outbox: false }),
  );
  const names = db.dialect.names("inbox", schema, table);
  const keys = db.dialect.keys(names);

  const run = async (
    statement: SqlStatement,
    key: string,
    params: SqlParams,
    call: CallOptions,
  ): Promise<SqlRow | undefined> => {
    requireKey(key);
    const [row] = await runner.execute(statement, { source, key, ...params }, call);
    return row;
  };
  const begin = keyBeginner({ db, runner, statements: keys, source });
  const holding = holderCalls(run);
  const inspect = (key: string, call: CallOptions = {}) => run(keys.inspectKey, key, {}, call);

  return {
    init: async (call = {}) => runner.ready(call),

    async tryBegin(key, { owner, leaseMs = defaultLeaseMs, leaseId: proposed, ...call } = {}) {
      requireLeaseMs(leaseMs);
      const name = optionalOwner(owner);
      // Made here, so that a call that is repeated after a lost connection finds its own lease.
      const leaseId = newLeaseId(proposed);
      requireKey(key);
      const row = await begin({ key, lease_id: leaseId, lease_ms: leaseMs, owner: name }, call.signal);
      const result = begun(row, leaseId, db.dialect.fromTime);
      logger.debug("try begin", { source, status: result.status }); // without the key, which may hold personal data
      return result;
    },
    async renew(key, leaseId, leaseMs, call = {}) {
      requireLeaseMs(leaseMs);
      const row = await holding(keys.renewKey, key, leaseId, { lease_ms: leaseMs }, call);
      if (row === undefined) return { status: "LeaseLost" };
      return { status: "Renewed", expiresAt: db.dialect.fromTime(row.locked_until) };
    },
    async finish(key, leaseId, call = {}) {
      const row = await holding(keys.finishKey, key, leaseId, {}, call);
      return { status: row === undefined ? "LeaseLost" : "Processed" };
    },
    async release(key, leaseId, call = {}) {
      const row = await holding(keys.releaseKey, key, leaseId, {}, call);
      return { status: row === undefined ? "LeaseLost" : "Released" };
    },

    isProcessed: async (key, call) => isTrue((await inspect(key, call))?.processed),
    async markProcessed(key, call = {}) {
      await run(keys.markKey, key, {}, call);
    },
    inspect: async (key, call) => report(await inspect(key, call), db.dialect.fromTime),

    async purge(call = {}) {
      const limit = call.batchSize ?? defaults.purgeBatchSize;
      requireBatchSize(limit);
      optionalCount(call.maxBatches, "maxBatches", 1);
      let purged = 0;
      for (let batch = 1; ; batch++) {
        const [row] = await runner.execute(keys.purgeKeys, { source, retention_ms: keptMs, limit }, call);
        const deleted = Number(row?.deleted ?? 0);
        purged += deleted;
        const more = deleted >= limit;
        if (more && batch !== call.maxBatches) {
          await yieldToEventLoop();
          continue;
        }
        if (purged > 0) logger.info("purge keys", { source, purged });
        return { purged, more, cursor: null };
      }
    },
    close: async () => {},
  };
}

type Run = (
  statement: SqlStatement,
  key: string,
  params: SqlParams,
  call: CallOptions,
) => Promise<SqlRow | undefined>;

/** Calls of a lease's holder. Lease ids are GUIDs: another text holds nothing, and the database is not asked. */
const holderCalls =
  (run: Run) =>
  async (
    statement: SqlStatement,
    key: string,
    leaseId: string,
    params: SqlParams,
    call: CallOptions,
  ): Promise<SqlRow | undefined> => {
    requireKey(key);
    requireLeaseId(leaseId);
    if (!isGuid(leaseId)) return undefined;
    return run(statement, key, { lease_id: leaseId.toLowerCase(), ...params }, call);
  };

type FromTime = (value: unknown) => Date;

const timeOf = (fromTime: FromTime, value: unknown): Date | null =>
  value === null || value === undefined ? null : fromTime(value);

function begun(row: SqlRow, leaseId: string, fromTime: FromTime): TryBeginResult {
  // First, because a call with a lease id of its own may come twice, and late: after that lease has marked the key.
  if (isTrue(row.processed)) return { status: "Processed" };
  if (isTrue(row.mine)) return { status: "Acquired", leaseId, expiresAt: fromTime(row.locked_until) };
  return { status: "Busy", expiresAt: timeOf(fromTime, row.locked_until) };
}

function report(row: SqlRow | undefined, fromTime: FromTime): KeyReport {
  if (row === undefined) return { status: "Unknown" };
  const shown = isTrue(row.processed) ? "Processed" : isTrue(row.held) ? "Leased" : "Free";
  return {
    status: shown,
    attempts: Number(row.attempt),
    firstSeenAt: fromTime(row.first_seen_at),
    lastSeenAt: fromTime(row.last_seen_at),
    leaseUntil: shown === "Leased" ? timeOf(fromTime, row.locked_until) : null,
    owner: row.owner as string | null,
  };
}

export interface KeyBeginnerOptions {
  readonly db: Database;
  readonly runner: StatementRunner;
  readonly statements: KeyStatements;
  readonly source: string;
}

/** A key to lease: `key`, `lease_id`, `lease_ms` and `owner`. Returns the row of the key. */
type Begin = (item: SqlParams, signal: AbortSignal | undefined) => Promise<SqlRow>;

/**
 * Leases keys. Calls that come while others run share a round trip and a commit, as single receives do. A batch that fails
 * is repeated with the same lease ids, so it finds its own leases.
 */
export function keyBeginner({ db, runner, statements, source }: KeyBeginnerOptions): Begin {
  const { tryBegin, tryBeginMany } = statements;
  const one: Begin = async (item, signal) => {
    const [row] = await runner.execute(tryBegin, { source, ...item }, { signal });
    return row!;
  };
  if (tryBeginMany === undefined) return one;
  return receiveBatching<SqlParams, SqlRow>({
    receiveOne: one,
    async receiveBatch(items, signal) {
      // Sorted by key, two batches with the same keys wait for each other instead of deadlocking.
      const sorted = JSON.stringify([...items].sort(byKey));
      const rows = await runner.execute(tryBeginMany, { source, items: sorted }, { signal });
      const found = new Map(rows.map((row) => [row.key, row]));
      return items.map((item) => found.get(item.key)!);
    },
    keyOf,
    sizeOf: (item) => keyOf(item).length,
    isOutage: (error) => db.dialect.classify(error) !== "permanent",
  });
}

const keyOf = ({ key }: SqlParams): string => key as string;

const byKey = (a: SqlParams, b: SqlParams): number => (keyOf(a) < keyOf(b) ? -1 : 1);

export type PurgeKeysOptions = Omit<PurgeOptions, "retentionMs">;
