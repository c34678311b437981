import { yieldToEventLoop } from "../base/async.js";
import { omitUndefined } from "../base/defined.js";
import type { LoggerOption } from "../base/logger.js";
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
  checkedInboxStore,
  type KeyCalls,
  type KeyReport,
  type LeasingInboxStore,
  retention,
  type TryBeginResult,
} from "./inbox-store.js";

/** Options of an inbox store on a SQL database. */
export interface SqlInboxStoreOptions {
  /** Separates the keys of several stores in one table; "inbox-service" by default. */
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

/** An inbox store on a SQL database. */
export interface SqlInboxStore extends LeasingInboxStore {
  /** Deploys the schema when `enableSchemaDeployment` is set; does nothing otherwise. */
  init(options?: CallOptions): Promise<void>;
  /**
   * Deletes the store's keys that were processed before the retention, and those that were never finished and that nobody
   * has held since then, unless they were asked for since. Short batches; run it by a timer.
   */
  purge(options?: PurgeKeysOptions): Promise<PurgeResult>;
}

/** Which keys are purged. */
export type PurgeKeysOptions = Omit<PurgeOptions, "retentionMs" | "retentions">;

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
  const { fromTime } = db.dialect;
  const statements = db.dialect.keys(db.dialect.names("inbox", schema, table));
  const begin = keyBeginner(db, runner, statements, source);

  const run = async (
    statement: SqlStatement,
    params: SqlParams,
    signal: AbortSignal | undefined,
  ): Promise<SqlRow | undefined> => {
    const [row] = await runner.execute(statement, { source, ...params }, { signal });
    return row;
  };
  /** Lease ids are GUIDs: another text holds nothing, and the database is not asked. */
  const runHeld: typeof run = async (statement, params, signal) =>
    isGuid(params.lease_id) ? run(statement, params, signal) : undefined;

  const calls: KeyCalls = {
    async tryBegin(key, { leaseId, leaseMs, owner }, signal) {
      const row = await begin({ key, lease_id: leaseId, lease_ms: leaseMs, owner }, signal);
      const result = begun(row, leaseId, fromTime);
      logger.debug("try begin", { source, status: result.status }); // without the key, which may hold personal data
      return result;
    },
    async renew(key, leaseId, leaseMs, signal) {
      const params = { key, lease_id: leaseId, lease_ms: leaseMs };
      const row = await runHeld(statements.renewKey, params, signal);
      if (row === undefined) return { status: "LeaseLost" };
      return { status: "Renewed", expiresAt: fromTime(row.locked_until) };
    },
    async finish(key, leaseId, signal) {
      const row = await runHeld(statements.finishKey, { key, lease_id: leaseId }, signal);
      return { status: row === undefined ? "LeaseLost" : "Processed" };
    },
    async release(key, leaseId, signal) {
      const row = await runHeld(statements.releaseKey, { key, lease_id: leaseId }, signal);
      return { status: row === undefined ? "LeaseLost" : "Released" };
    },
    isProcessed: async (key, signal) =>
      isTrue((await run(statements.inspectKey, { key }, signal))?.processed),
    async markProcessed(key, signal) {
      await run(statements.markKey, { key }, signal);
    },
    inspect: async (key, signal) => report(await run(statements.inspectKey, { key }, signal), fromTime),
    close: async () => {},
  };

  return {
    ...checkedInboxStore(calls),
    init: async (call = {}) => runner.ready(call),
    async purge(call = {}) {
      const limit = call.batchSize ?? defaults.purgeBatchSize;
      requireBatchSize(limit);
      optionalCount(call.maxBatches, "maxBatches", 1);
      const params = { source, retention_ms: keptMs, limit };
      let purged = 0;
      let more = true;
      for (let batch = 1; more; batch++) {
        const [row] = await runner.execute(statements.purgeKeys, params, call);
        const deleted = Number(row?.deleted ?? 0);
        purged += deleted;
        more = deleted >= limit;
        if (batch === call.maxBatches) break;
        if (more) await yieldToEventLoop();
      }
      if (purged > 0) logger.info("purge keys", { source, purged });
      return { purged, more, cursor: null };
    },
  };
}

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
  const status = isTrue(row.processed) ? "Processed" : isTrue(row.held) ? "Leased" : "Free";
  return {
    status,
    attempts: Number(row.attempt),
    firstSeenAt: fromTime(row.first_seen_at),
    lastSeenAt: fromTime(row.last_seen_at),
    leaseUntil: status === "Leased" ? timeOf(fromTime, row.locked_until) : null,
    owner: row.owner as string | null,
  };
}

/** Leases a key, of which `item` has `key`, `lease_id`, `lease_ms` and `owner`. Returns the row of the key. */
type Begin = (item: SqlParams, signal: AbortSignal | undefined) => Promise<SqlRow>;

/**
 * Leases keys. Calls that come while others run share a round trip and a commit, as single receives do. A batch that fails
 * is repeated with the same lease ids, so it finds its own leases.
 */
function keyBeginner(
  db: Database,
  runner: StatementRunner,
  { tryBegin, tryBeginMany }: KeyStatements,
  source: string,
): Begin {
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
