import { InvalidArgumentError } from "../errors.js";
import {
  optionalDate,
  optionalHash,
  optionalHeaders,
  optionalName,
  optionalPartitionKey,
  requireList,
  requireName,
  requirePayload,
} from "../queue/arguments.js";
import type { InboxKey, InboxMessage, InboxState } from "../queue/message.js";
import type { CallOptions, WorkStore } from "../queue/work-store.js";
import { type Database, status } from "../sql/dialect.js";
import type { SqlExecutor, SqlParams, SqlRow, SqlValue } from "../sql/driver.js";
import { isTrue } from "../sql/is-true.js";
import { inboxShape } from "../sql/queue-shape.js";
import { createQueueStore } from "../sql/queue-store.js";
import { resolveStoreOptions, type StoreOptions } from "../sql/store-options.js";
import { toStoredError, toStoredText } from "../sql/stored-text.js";
import { sharedTrips } from "./shared-trips.js";

/** What arrives. */
export interface IncomingMessage extends InboxKey {
  readonly topic: string;
  /** Any text; it may be empty. */
  readonly payload: string;
  /** Of the content, to tell a redelivery from another message under the same id. */
  readonly hash?: Uint8Array | null | undefined;
  readonly correlationId?: string | null | undefined;
  /** Messages with the same one are handled one at a time, in the order in which they were enqueued. */
  readonly partitionKey?: string | null | undefined;
  readonly headers?: Readonly<Record<string, string>> | null | undefined;
  /** Not before; at once by default. */
  readonly dueAt?: Date | null | undefined;
  /** Not after: an unhandled message is dead then. */
  readonly expiresAt?: Date | null | undefined;
}

/**
 * - `enqueued`: new, and claimable from its due time on
 * - `duplicate`: already waiting or being handled
 * - `done`: already handled
 * - `dead`: it died before and stays dead (see `deadOnRedelivery`)
 * - `conflict`: known under another hash; unless it was handled already, the newer content is kept
 */
export type ReceiveOutcome = "enqueued" | "duplicate" | "done" | "dead" | "conflict";

export interface InboxOptions extends StoreOptions<InboxKey> {
  /** What a redelivery does to a dead message: `keep` (the default) refreshes its content, `revive` makes it claimable again. */
  readonly deadOnRedelivery?: "keep" | "revive";
}

export interface InboxCallOptions extends CallOptions {
  /** The caller's transaction: what is recorded counts with its commit, and not without. */
  readonly tx?: SqlExecutor | undefined;
}

export interface Inbox extends WorkStore<InboxKey, InboxMessage, InboxState, SqlExecutor> {
  /** Deduplicates and enqueues in one round trip. */
  receive(message: IncomingMessage, options?: InboxCallOptions): Promise<ReceiveOutcome>;
  /** `receive` for many, in one round trip; the outcomes are in the messages' order. */
  enqueue(
    messages: readonly IncomingMessage[],
    options?: InboxCallOptions,
  ): Promise<readonly ReceiveOutcome[]>;
  /** Whether it is done; a message never seen before is recorded as Seen. */
  alreadyProcessed(key: InboxKey, hash?: Uint8Array | null, options?: InboxCallOptions): Promise<boolean>;
  /** For work done in place, without claiming. Only a Seen message changes. */
  markProcessing(key: InboxKey, options?: CallOptions): Promise<void>;
  /** Answers whether this call made it so: of any number at once, exactly one does. */
  markProcessed(key: InboxKey, options?: InboxCallOptions): Promise<boolean>;
  /** A message that is done stays done. */
  markDead(key: InboxKey, error?: string, options?: CallOptions): Promise<void>;
}

/**
 * An inbox on a database. Does no I/O until it is used.
 *
 * @example
 * const inbox = createInbox(db);
 * const outcome = await inbox.receive({ source: "stripe", messageId: event.id, topic: event.type, payload: body });
 */
export function createInbox(db: Database, options: InboxOptions = {}): Inbox {
  const resolved = resolveStoreOptions(db, "inbox", options, ["deadOnRedelivery"]);
  const onRedelivery = options.deadOnRedelivery ?? "keep";
  if (onRedelivery !== "keep" && onRedelivery !== "revive") {
    throw new InvalidArgumentError('deadOnRedelivery must be "keep" or "revive".');
  }
  const names = db.dialect.names("inbox", resolved.schema, resolved.table);
  const statements = db.dialect.inbox(names, {
    reviveDead: onRedelivery === "revive",
    deadBlocks: resolved.deadBlocks,
  });
  const { kernel, ...store } = createQueueStore({
    db,
    kind: "inbox",
    shape: inboxShape,
    statements,
    options: resolved,
  });
  const { logger } = resolved;

  const outcomeOf = (row: SqlRow): ReceiveOutcome => {
    if (row.outcome !== undefined) return row.outcome as ReceiveOutcome;
    if (isTrue(row.content_changed)) return "conflict";
    if (isTrue(row.enqueued)) return "enqueued";
    const before = Number(row.old_status);
    return before === status.done ? "done" : before === status.dead ? "dead" : "duplicate";
  };

  const logReceived = (message: IncomingMessage, outcome: ReceiveOutcome): void => {
    const fields = { topic: message.topic, source: message.source, messageId: message.messageId, outcome };
    logger.info("enqueue", fields);
    if (outcome === "conflict") logger.warn("the same id arrived with other content", fields);
  };

  const mark = async (
    key: InboxKey,
    to: number,
    error: string | null,
    call: InboxCallOptions,
  ): Promise<boolean> => {
    const params = { ...inboxShape.keyParams(inboxShape.key(key)), status: to, error };
    return (await kernel.executeIn(call.tx, statements.mark, params, call)).length > 0;
  };

  /** No key may come twice. The outcomes are in the messages' order. */
  const receiveMany = async (
    incoming: readonly SqlParams[],
    call: InboxCallOptions,
  ): Promise<readonly ReceiveOutcome[]> => {
    const hasPartitions = incoming.some((params) => params.partition_key !== undefined);
    // In the order of their keys, two batches with the same keys wait for each other instead of deadlocking. Those
    // with partition keys stay in their own order: where that leads to a deadlock, the batch is repeated.
    const sent = hasPartitions ? incoming : [...incoming].sort(byKey);
    const statement = hasPartitions ? statements.receiveKeyed : statements.receiveMany;
    const items = JSON.stringify(sent.map(toItem));
    const rows = await kernel.executeIn(call.tx, statement, { items }, call);
    const outcomes = new Map(rows.map((row) => [inboxShape.keyText(inboxShape.keyOf(row)), outcomeOf(row)]));
    return incoming.map((params) => outcomes.get(keyOf(params))!);
  };

  const receiveAlone = async (params: SqlParams, call: InboxCallOptions): Promise<ReceiveOutcome> =>
    params.partition_key === undefined
      ? outcomeOf((await kernel.executeIn(call.tx, statements.receive, params, call))[0]!)
      : (await receiveMany([params], call))[0]!;

  const receiveShared = sharedTrips<SqlParams, ReceiveOutcome>({
    alone: (params, signal) => receiveAlone(params, { signal }),
    together: (group, signal) => receiveMany(group, { signal }),
    keyOf,
    sizeOf: (params) => (params.payload as string).length,
    isOutage: (error) => db.dialect.classify(error) !== "permanent",
  });

  return {
    ...store,

    async receive(message, call = {}) {
      const params = toParams(db, message);
      const mayShare = !db.dialect.embedded && call.tx === undefined && params.partition_key === undefined;
      const outcome = await (mayShare ? receiveShared(params, call.signal) : receiveAlone(params, call));
      logReceived(message, outcome);
      return outcome;
    },

    async enqueue(messages, call = {}) {
      requireList(messages, "messages");
      if (messages.length === 0) return [];
      const outcomes: ReceiveOutcome[] = new Array(messages.length);
      const entries = messages.map((message, index) => {
        const params = toParams(db, message);
        return { params, index, key: keyOf(params) };
      });
      const send = async (wave: readonly (typeof entries)[number][], tx?: SqlExecutor): Promise<void> => {
        const received = await receiveMany(
          wave.map(({ params }) => params),
          { ...call, tx },
        );
        for (const [place, { index }] of wave.entries()) outcomes[index] = received[place]!;
      };
      const waves = wavesOf(entries);
      if (waves.length === 1) await send(waves[0]!, call.tx);
      else if (call.tx !== undefined) for (const wave of waves) await send(wave, call.tx);
      else {
        await kernel.atomically(async (tx) => {
          for (const wave of waves) await send(wave, tx);
        }, call);
      }
      for (const [index, message] of messages.entries()) logReceived(message, outcomes[index]!);
      return outcomes;
    },

    async alreadyProcessed(key, hash, call = {}) {
      const params = { ...inboxShape.keyParams(inboxShape.key(key)), hash: optionalHash(hash) };
      const [row] = await kernel.executeIn(call.tx, statements.alreadyProcessed, params, call);
      const processed = isTrue(row!.processed);
      logger.debug("already processed?", { source: key.source, messageId: key.messageId, processed });
      if (isTrue(row!.content_changed)) {
        logger.warn("the same id arrived with other content", {
          source: key.source,
          messageId: key.messageId,
        });
      }
      return processed;
    },

    async markProcessing(key, call = {}) {
      await mark(key, status.held, null, call);
    },
    markProcessed: async (key, call = {}) => mark(key, status.done, null, call),
    async markDead(key, error, call = {}) {
      const changed = await mark(key, status.dead, toStoredError(error), call);
      if (changed)
        kernel.announceDead(
          [{ source: key.source, messageId: key.messageId }],
          error || "Marked dead by hand.",
        );
    },
  };
}

const keyOf = ({ source, message_id: messageId }: SqlParams): string =>
  inboxShape.keyText({ source: source as string, messageId: messageId as string });

const byKey = (a: SqlParams, b: SqlParams): number =>
  compared(a.source as string, b.source as string) ||
  compared(a.message_id as string, b.message_id as string);

const compared = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** One statement cannot touch a row twice, so a key that comes again goes into a later one. */
function wavesOf<Entry extends { readonly key: string }>(entries: readonly Entry[]): readonly Entry[][] {
  const waves: Entry[][] = [];
  const seen = new Map<string, number>();
  for (const entry of entries) {
    const wave = seen.get(entry.key) ?? 0;
    seen.set(entry.key, wave + 1);
    waves[wave] ??= [];
    waves[wave].push(entry);
  }
  return waves;
}

function toParams(db: Database, message: IncomingMessage): SqlParams {
  requireName(message?.topic, "topic");
  inboxShape.key(message);
  requirePayload(message.payload);
  const time = (date: Date | null) => (date === null ? null : db.dialect.toTime(date));
  const headers = optionalHeaders(message.headers);
  const partitionKey = optionalPartitionKey(message.partitionKey);
  const params: Record<string, SqlValue> = {
    source: message.source,
    message_id: message.messageId,
    topic: message.topic,
    payload: toStoredText(message.payload),
    hash: optionalHash(message.hash),
    correlation_id: optionalName(message.correlationId, "correlationId"),
    headers: headers === null ? null : toStoredText(JSON.stringify(headers)),
    due_at: time(optionalDate(message.dueAt, "dueAt")),
    expires_at: time(optionalDate(message.expiresAt, "expiresAt")),
  };
  if (partitionKey !== null) params.partition_key = partitionKey; // nearly always absent, and then not sent
  return params;
}

/** As part of a JSON array: bytes travel as hexadecimal. */
const toItem = (params: SqlParams) =>
  Object.assign({}, params, {
    hash: params.hash === null ? null : Buffer.from(params.hash as Uint8Array).toString("hex"),
  });
