import { omitUndefined } from "../base/defined.js";
import type { LoggerOption } from "../base/logger.js";
import { yieldToEventLoop } from "../base/timers.js";
import { isGuid } from "../base/uuid.js";
import { receiveBatching } from "../inbox/receive-batching.js";
import { optionalCount, refuseUnknown, requireBatchSize, requireName } from "../queue/arguments.js";
import type { CallOptions, PurgeOptions, PurgeResult } from "../queue/work-store.js";
import { type Database, type InboxStatements, type KeyStatements, status } from "../sql/dialect.js";
import { isTrue, rowNumber, type SqlParams, type SqlRow, type SqlStatement } from "../sql/driver.js";
import { fromStoredText } from "../sql/message-content.js";
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
  /** The source of the store's keys in the inbox, "inbox-service" by default. No webhook source may have the same name. */
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
   * has held since then. It deletes nothing else. Short batches; run it by a timer.
   */
  purge(options?: PurgeKeysOptions): Promise<PurgeResult>;
}

const known = ["source", "schema", "table", "enableSchemaDeployment", "retentionMs", "logger", "id", "clock"];

/**
 * An inbox store on a database: keys are messages of the inbox, under one source. Does no I/O until it is used.
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
  const { purge } = db.dialect.inbox(names, { blockOnDead: false });
  const { mark } = db.dialect.receiving(names, { blockOnDead: false, reviveDead: false });

  const run = async (
    statement: SqlStatement,
    key: string,
    params: SqlParams,
    call: CallOptions,
  ): Promise<SqlRow | undefined> => {
    requireKey(key);
    const [row] = await runner.execute(statement, { source, message_id: key, ...params }, call);
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
      const headers = name === null ? null : JSON.stringify({ owner: name });
      // Made here, so that a call that is repeated after a lost connection finds its own lease.
      const leaseId = newLeaseId(proposed);
      requireKey(key);
      const row = await begin({ message_id: key, owner: leaseId, lease_ms: leaseMs, headers }, call.signal);
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

    isProcessed: async (key, call) => Number((await inspect(key, call))?.status) === status.done,
    async markProcessed(key, call = {}) {
      await run(mark, key, { status: status.done, error: null, error_group: null }, call);
    },
    inspect: async (key, call) => report(await inspect(key, call), db.dialect.fromTime),

    async purge(call = {}) {
      const parts = { statements: { ...keys, purge }, runner, params: { source, retention_ms: keptMs } };
      const result = await purgeKeys(parts, call);
      if (result.purged > 0) logger.info("purge keys", { source, purged: result.purged });
      return result;
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
    return run(statement, key, { owner: leaseId.toLowerCase(), ...params }, call);
  };

type FromTime = (value: unknown) => Date;

const timeOf = (fromTime: FromTime, value: unknown): Date | null =>
  value === null || value === undefined ? null : fromTime(value);

/** A message that a dispatcher handles, or that is dead, is Busy: it is not this caller's to handle. */
function begun(row: SqlRow, leaseId: string, fromTime: FromTime): TryBeginResult {
  // First, because a call with a lease id of its own may come twice, and late: after that lease has marked the key.
  if (Number(row.status) === status.done) return { status: "Processed" };
  if (isTrue(row.mine)) return { status: "Acquired", leaseId, expiresAt: fromTime(row.locked_until) };
  return { status: "Busy", expiresAt: timeOf(fromTime, row.locked_until) };
}

function report(row: SqlRow | undefined, fromTime: FromTime): KeyReport {
  if (row === undefined) return { status: "Unknown" };
  const code = Number(row.status);
  const isFree = code === status.seen || (code === status.leased && !isTrue(row.live));
  const shown = code === status.done ? "Processed" : isFree ? "Free" : "Leased";
  const headers = JSON.parse(fromStoredText((row.headers as string | null) ?? "{}")) as {
    readonly owner?: string;
  };
  return {
    status: shown,
    attempts: Number(row.attempt),
    firstSeenAt: fromTime(row.first_seen_at),
    lastSeenAt: fromTime(row.last_seen_at),
    leaseUntil: shown === "Leased" ? timeOf(fromTime, row.locked_until) : null,
    owner: headers.owner ?? null,
  };
}

export interface KeyBeginnerOptions {
  readonly db: Database;
  readonly runner: StatementRunner;
  readonly statements: KeyStatements;
  readonly source: string;
}

/** A key to lease: `message_id`, `owner`, `lease_ms` and `headers`. Returns the row of the key. */
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
      const found = new Map(rows.map((row) => [row.message_id, row]));
      return items.map((item) => found.get(item.message_id)!);
    },
    keyOf,
    sizeOf: (item) => keyOf(item).length,
    isOutage: (error) => db.dialect.classify(error) !== "permanent",
  });
}

const keyOf = ({ message_id }: SqlParams): string => message_id as string;

const byKey = (a: SqlParams, b: SqlParams): number => (keyOf(a) < keyOf(b) ? -1 : 1);

export type PurgeKeysOptions = Omit<PurgeOptions, "retentionMs">;

interface PurgeParts {
  readonly statements: Pick<KeyStatements, "purgeKeys"> & Pick<InboxStatements, "purge">;
  readonly runner: StatementRunner;
  /** The source and the retention. */
  readonly params: SqlParams;
}

/**
 * Deletes keys in batches: first those that were never finished, which an index finds, then the processed ones in the
 * order of their row numbers. Only the second part has a cursor; at 0 both parts run.
 */
export async function purgeKeys(parts: PurgeParts, options: PurgeKeysOptions): Promise<PurgeResult> {
  const limit = options.batchSize ?? defaults.purgeBatchSize;
  requireBatchSize(limit);
  optionalCount(options.maxBatches, "maxBatches", 1);
  optionalCount(options.after, "after", 0);
  const { statements, runner, params } = parts;

  const abandoned = async (): Promise<number> => {
    const [row] = await runner.execute(statements.purgeKeys, { ...params, limit }, options);
    return Number(row?.deleted ?? 0);
  };
  const processed = async (after: number) => {
    const [row] = await runner.execute(statements.purge, { ...params, limit, after_seq: after }, options);
    const next = isTrue(row?.more) ? rowNumber(row?.last_seq ?? after) : null;
    return { deleted: Number(row?.deleted ?? 0), next };
  };

  let purged = 0;
  let cursor: number | null = options.after ?? 0;
  let mayHaveAbandoned = cursor === 0;
  for (let batches = 0; cursor !== null && batches !== options.maxBatches; batches++) {
    if (batches > 0) await yieldToEventLoop();
    if (mayHaveAbandoned) {
      const deleted = await abandoned();
      purged += deleted;
      mayHaveAbandoned = deleted === limit;
      if (mayHaveAbandoned) continue;
    }
    const { deleted, next } = await processed(cursor);
    purged += deleted;
    cursor = next;
  }
  return { purged, more: cursor !== null, cursor };
}
