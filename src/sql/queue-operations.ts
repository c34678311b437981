import { yieldToEventLoop } from "../base/wait.js";
import { InvalidArgumentError } from "../errors.js";
import {
  optionalAge,
  optionalCount,
  requireBatchSize,
  requireDuration,
  requireList,
} from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import { ownerToken } from "../queue/owner-token.js";
import type {
  Abandonment,
  AckOptions,
  ListFilter,
  PurgeOptions,
  QueueStats,
  ReapOptions,
  Settlement,
  WorkStore,
} from "../queue/work-store.js";
import type { AnnounceDead } from "./announce-dead.js";
import type { Database, QueueStatements, Rows } from "./dialect.js";
import type { SqlExecutor, SqlParams, SqlRow, SqlStatement } from "./driver.js";
import { isTrue } from "./is-true.js";
import type { QueueShape } from "./queue-shape.js";
import { reasons } from "./reasons.js";
import type { StatementRunner } from "./statement-runner.js";
import type { ResolvedStoreOptions } from "./store-options.js";
import { toStoredError } from "./stored-text.js";

export const defaults = {
  leaseMs: 30_000,
  batchSize: 50,
  reapBatchSize: 200,
  purgeBatchSize: 500,
  retentionMs: 30 * 24 * 60 * 60 * 1000,
  listLimit: 100,
} as const;

export interface QueueStoreParts<Key, Message extends QueueMessage, State extends string> {
  readonly db: Database;
  readonly kind: "inbox" | "outbox";
  readonly shape: QueueShape<Key, Message, State>;
  readonly statements: QueueStatements;
  readonly options: ResolvedStoreOptions<Key>;
}

export type QueueOperations<Key, Message extends QueueMessage & Key, State extends string> = Omit<
  WorkStore<Key, Message, State, SqlExecutor>,
  "id"
>;

/** Messages and their row numbers, each once. Two lists and no object for each: this is made for every acknowledgement. */
interface Numbered<Key> {
  readonly keys: readonly Key[];
  readonly seqs: readonly number[];
  /** Some have a partition key, or it is not known. */
  readonly keyed: boolean;
}

/** The one implementation of the work queue, for every dialect and for inbox and outbox alike. */
export function queueOperations<Key extends object, Message extends QueueMessage & Key, State extends string>(
  { db, shape, statements, options }: QueueStoreParts<Key, Message, State>,
  { execute, executeIn, ready }: StatementRunner,
  announceDead: AnnounceDead<Key>,
): QueueOperations<Key, Message, State> {
  const { dialect, driver } = db;
  const { logger } = options;

  /** Claimed messages bring their row number; plain keys are looked up. Duplicates count once. */
  const numbered = async (
    messages: readonly Key[],
    call: AckOptions<SqlExecutor>,
  ): Promise<Numbered<Key>> => {
    const known = new Map<string, { readonly seq: number; readonly key: Key }>();
    const unknown = new Map<string, Key>();
    let keyed = false;
    for (const key of messages) {
      const text = shape.keyText(shape.key(key));
      const seq = seqOf(key);
      if (typeof seq === "number") {
        known.set(text, { seq, key });
        keyed ||= mayHaveKey(key);
      } else if (!known.has(text)) unknown.set(text, key);
    }
    if (unknown.size > 0) {
      const items = JSON.stringify([...unknown.values()].map(shape.keyParams));
      for (const row of await executeIn(call.tx, statements.resolve, { items }, call)) {
        const text = shape.keyText(shape.keyOf(row));
        known.set(text, { seq: Number(row.seq), key: unknown.get(text)! });
        keyed ||= row.partition_key !== null;
      }
    }
    const entries = [...known.values()];
    return { keys: entries.map(({ key }) => key), seqs: entries.map(({ seq }) => seq), keyed };
  };

  /** The common case without any look at keys: all of them were claimed. */
  const allNumbered = (messages: readonly Key[]): Numbered<Key> | undefined => {
    const seqs: number[] = new Array(messages.length);
    let keyed = false;
    let ascending = true; // as a claim brings them; then no number comes twice
    for (let index = 0; index < messages.length; index++) {
      const seq = seqOf(messages[index]!);
      if (typeof seq !== "number") return undefined;
      ascending &&= index === 0 || seq > seqs[index - 1]!;
      seqs[index] = seq;
      keyed ||= mayHaveKey(messages[index]!);
    }
    if (ascending) return { keys: messages, seqs, keyed };
    const sorted = [...new Map(seqs.map((seq, index) => [seq, messages[index]!]))].sort(([a], [b]) => a - b);
    return { keys: sorted.map(([, key]) => key), seqs: sorted.map(([seq]) => seq), keyed };
  };

  const settlement = (
    messages: readonly Key[],
    { keys, seqs }: Numbered<Key>,
    rows: Rows,
  ): Settlement<Key> => {
    const isWhole = rows.length === keys.length && rows[0]?.dead === undefined;
    if (isWhole && keys.length === messages.length) return { changed: [...keys], lost: [], dead: [] };
    const bySeq = new Map(seqs.map((seq, index) => [seq, keys[index]!]));
    const changed = isWhole ? [...keys] : rows.map((row) => bySeq.get(Number(row.seq))!);
    const dead = rows.filter((row) => isTrue(row.dead)).map((row) => bySeq.get(Number(row.seq))!);
    const settled = new Set(changed.map(shape.keyText));
    const lost = distinct(messages).filter((key) => !settled.has(shape.keyText(key)));
    return { changed, dead, lost };
  };

  const distinct = (keys: readonly Key[]): readonly Key[] => [
    ...new Map(keys.map((key) => [shape.keyText(key), key])).values(),
  ];

  const settle = async (
    verb: string,
    statement: SqlStatement,
    messages: readonly Key[],
    params: SqlParams,
    call: AckOptions<SqlExecutor>,
    itemOf?: (key: Key, seq: number) => unknown,
  ): Promise<Settlement<Key>> => {
    requireList(messages, "messages");
    if (messages.length === 0) return { changed: [], lost: [], dead: [] };
    const entries = allNumbered(messages) ?? (await numbered(messages, call));
    const { keys, seqs, keyed } = entries;
    const items = JSON.stringify(
      itemOf === undefined ? seqs : keys.map((key, index) => itemOf(key, seqs[index]!)),
    );
    const variant = keyed && statement.keyed !== undefined ? statement.keyed : statement;
    const sent = { ...params, items, count: keys.length };
    const rows = keys.length === 0 ? [] : await executeIn(call.tx, variant, sent, call);
    const result = settlement(messages, entries, eachSettled(rows, keys.length));
    logger.debug(verb, {
      changed: result.changed.length,
      lost: result.lost.length,
      dead: result.dead.length,
    });
    if (result.lost.length > 0 && "owner" in params)
      logger.warn(`${verb}: no longer held by this owner`, { lost: result.lost.length });
    return result;
  };

  const reasonOf = (verdict: unknown) => (verdict === "expired" ? reasons.expired : reasons.leaseExpired);

  return {
    init: async (call = {}) => ready(call),

    async claim(claim) {
      const owner = ownerToken(claim?.owner);
      const leaseMs = claim.leaseMs ?? defaults.leaseMs;
      const limit = claim.batchSize ?? defaults.batchSize;
      requireDuration(leaseMs, "leaseMs");
      requireBatchSize(limit);
      for (;;) {
        const rows = await execute(statements.claim, { owner, lease_ms: leaseMs, limit }, claim);
        const claimed: Message[] = [];
        let isSorted = true;
        for (const row of rows) {
          if (!isClaimed(row)) announceDead([shape.keyOf(row)], reasonOf(row.verdict));
          else {
            const message = shape.toMessage(row, dialect, owner);
            isSorted &&= claimed.length === 0 || message.seq > claimed[claimed.length - 1]!.seq;
            claimed.push(message);
          }
        }
        logger.debug("claim", { claimed: claimed.length });
        // Only dead ones came: there may be live ones behind them.
        if (claimed.length > 0 || rows.length === 0)
          return isSorted ? claimed : claimed.sort((a, b) => a.seq - b.seq);
      }
    },

    ack: async (owner, messages, call = {}) =>
      settle(
        "ack",
        statements.ack,
        messages,
        { owner: ownerToken(owner), processed_by: options.processedBy ?? owner },
        call,
      ),

    async abandon(owner, messages, abandon = {}) {
      const token = ownerToken(owner);
      requireList(messages, "messages");
      const items = new Map<string, Abandonment<Key>>();
      optionalCount(abandon.maxAttempts, "maxAttempts", 1);
      const limit = abandon.maxAttempts === undefined ? {} : { max_attempts: abandon.maxAttempts };
      for (const entry of messages) {
        const own: Abandonment<Key> = isAbandonment<Key>(entry) ? entry : { message: entry };
        const delayMs = own.delayMs ?? abandon.delayMs;
        if (delayMs !== undefined) requireDuration(delayMs, "delayMs");
        const { message, costsAttempt } = own;
        const item = { message, delayMs, error: own.error ?? abandon.error, costsAttempt };
        items.set(shape.keyText(shape.key(own.message)), item);
      }
      const keys = [...items.values()].map((item) => item.message);
      const result = await settle(
        "abandon",
        statements.abandon,
        keys,
        { owner: token, ...limit },
        abandon,
        (key, seq) => {
          const { delayMs, error, costsAttempt = true } = items.get(shape.keyText(key))!;
          const row = { seq, delay_ms: delayMs ?? null, error: toStoredError(error) };
          return costsAttempt ? row : { ...row, attempts: 0 };
        },
      );
      for (const key of result.dead) {
        announceDead([key], items.get(shape.keyText(key))!.error ?? "The last attempt was abandoned.");
      }
      return result;
    },

    async fail(owner, messages, error, call = {}) {
      const token = ownerToken(owner);
      if (typeof error !== "string")
        throw new InvalidArgumentError("fail: error must be a string that says why.");
      const result = await settle(
        "fail",
        statements.fail,
        messages,
        { owner: token, error: toStoredError(error) },
        call,
      );
      announceDead(result.changed, error);
      return { ...result, dead: result.changed };
    },

    release: async (owner, messages, call = {}) =>
      settle("release", statements.release, messages, { owner: ownerToken(owner) }, call),

    async renew(owner, messages, leaseMs, call = {}) {
      requireDuration(leaseMs, "leaseMs");
      return settle(
        "renew",
        statements.renew,
        messages,
        { owner: ownerToken(owner), lease_ms: leaseMs },
        call,
      );
    },

    async transaction(work, call = {}) {
      await ready(call);
      return driver.transaction(work, { signal: call.signal });
    },

    async reapExpired(reap: ReapOptions = {}) {
      const limit = reap.batchSize ?? defaults.reapBatchSize;
      requireBatchSize(limit);
      optionalCount(reap.maxBatches, "maxBatches", 1);
      let reaped = 0;
      let dead = 0;
      for (let batch = 1; ; batch++) {
        const rows = await execute(statements.reap, { limit }, reap);
        const died = rows.filter((row) => row.verdict !== "reaped");
        reaped += rows.filter((row) => row.verdict !== "expired").length;
        dead += died.length;
        for (const row of died) announceDead([shape.keyOf(row)], reasonOf(row.verdict));
        const drained = rows.length < limit;
        if (!drained) await yieldToEventLoop(); // an embedded database would otherwise keep the thread for all batches
        if (drained || batch === reap.maxBatches) {
          if (reaped + dead > 0) logger.info("reap", { reaped, dead });
          return { reaped, dead, more: !drained };
        }
      }
    },

    async purgeDone(purge: PurgeOptions = {}) {
      const limit = purge.batchSize ?? defaults.purgeBatchSize;
      const retentionMs = purge.retentionMs ?? defaults.retentionMs;
      requireBatchSize(limit);
      requireDuration(retentionMs, "retentionMs");
      optionalCount(purge.maxBatches, "maxBatches", 1);
      optionalCount(purge.after, "after", 0);
      let purged = 0;
      let after = purge.after ?? 0;
      for (let batch = 1; ; batch++) {
        const [row] = await execute(
          statements.purge,
          { limit, retention_ms: retentionMs, after_seq: after },
          purge,
        );
        purged += Number(row?.deleted ?? 0);
        after = Number(row?.last_seq ?? after);
        const more = isTrue(row?.more);
        if (more) await yieldToEventLoop();
        if (!more || batch === purge.maxBatches) {
          if (purged > 0) logger.info("purge", { purged });
          return { purged, more, cursor: more ? after : null };
        }
      }
    },

    async get(key, call = {}) {
      const rows = await execute(statements.get, shape.keyParams(shape.key(key)), call);
      return rows[0] === undefined ? null : shape.toMessage(rows[0], dialect);
    },

    async list(filter: ListFilter<State> = {}) {
      const limit = filter.limit ?? defaults.listLimit;
      requireBatchSize(limit, "limit");
      optionalCount(filter.after, "after", 0);
      optionalAge(filter.olderThanMs, "olderThanMs");
      optionalAge(filter.newerThanMs, "newerThanMs");
      if (filter.state !== undefined && !shape.states.includes(filter.state)) {
        throw new InvalidArgumentError(`state must be one of ${shape.states.join(", ")}.`);
      }
      const wanted = filter.state === undefined ? undefined : shape.rowsIn(filter.state);
      const rows = await execute(
        statements.list,
        {
          status: wanted?.statuses[0] ?? null,
          status_2: wanted?.statuses[1] ?? wanted?.statuses[0] ?? null,
          status_3: wanted?.statuses[2] ?? wanted?.statuses[0] ?? null,
          leased: wanted?.leased ?? null,
          topic: filter.topic ?? null,
          source: filter.source ?? null,
          error: filter.error ?? null,
          older_than_ms: filter.olderThanMs ?? null,
          newer_than_ms: filter.newerThanMs ?? null,
          after_seq: filter.after ?? 0,
          limit,
        },
        filter,
      );
      const messages = rows.map((row) => shape.toMessage(row, dialect));
      return { messages, cursor: messages.length < limit ? null : messages.at(-1)!.seq };
    },

    async stats(call = {}) {
      const rows = await execute(statements.stats, {}, call);
      const counts = Object.fromEntries(shape.states.map((state) => [state, 0])) as Record<State, number>;
      let due = 0;
      let oldest: number | null = null;
      for (const row of rows) {
        counts[shape.stateOf({ status: Number(row.status), leased: isTrue(row.leased) })] += Number(
          row.count,
        );
        due += Number(row.due);
        const age = row.oldest_due_ms;
        if (age !== null && age !== undefined) oldest = Math.max(oldest ?? 0, Number(age));
      }
      return { counts, due, oldestDueAgeMs: oldest } satisfies QueueStats<State>;
    },

    async oldestDueAgeMs(call = {}) {
      const [row] = await execute(statements.oldestDue, {}, call);
      const age = row?.oldest_due_ms;
      return age === null || age === undefined ? null : Number(age);
    },

    async replay(messages, call = {}) {
      const result = await settle("replay", statements.replay, messages, {}, call);
      if (result.changed.length > 0) logger.info("replay", { replayed: result.changed.length });
      return result;
    },
  };
}

/** A row for each message that changed, of an answer that may tell it in one. */
function eachSettled(rows: Rows, count: number): Rows {
  const answer = rows[0];
  if (answer?.whole === undefined) return rows;
  if (isTrue(answer.whole)) return new Array<SqlRow>(count).fill(noColumns);
  return ((answer.seqs as readonly unknown[] | null) ?? []).map((seq) => ({ seq }));
}

const noColumns: SqlRow = {};

const seqOf = (message: object): unknown => (message as { seq?: unknown } | null)?.seq;
const mayHaveKey = (message: object): boolean =>
  (message as { partitionKey?: unknown } | null)?.partitionKey !== null;

const isClaimed = (row: SqlRow): boolean => (row.verdict ?? "claimed") === "claimed";

const isAbandonment = <Key>(entry: Key | Abandonment<Key>): entry is Abandonment<Key> =>
  typeof entry === "object" && entry !== null && "message" in entry;
