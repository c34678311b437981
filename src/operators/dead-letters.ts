import { omitUndefined } from "../base/defined.js";
import { yieldToEventLoop } from "../base/timers.js";
import { ArgumentRangeError, InvalidArgumentError, InvalidOperationError } from "../errors.js";
import {
  optionalHeaders,
  refuseUnknown,
  requireBatchSize,
  requireDuration,
  requireList,
} from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import type { BulkAction, EditedContent, OperatorOptions, Operators } from "../queue/operators.js";
import type { CallOptions, Settlement } from "../queue/work-store.js";
import type { DeadStatements, OperatorStatements } from "../sql/dialect.js";
import type { SqlExecutor, SqlParams } from "../sql/driver.js";
import { settleMessages } from "../sql/leases.js";
import type { MessageContent } from "../sql/message-content.js";
import { deadConditions, deadParams } from "../sql/reads.js";
import type { QueueParts } from "../sql/store.js";
import { defaults, mostKeys } from "../sql/store-options.js";
import { logEnded, type OperationRecords, recordedOnce, requireBy, requireOperator } from "./operations.js";

/** The operations that read dead messages as a whole. */
export function deadOperations<Key extends object, Message extends QueueMessage & Key, State extends string>(
  { db, shape, runner }: QueueParts<Key, Message, State>,
  statements: DeadStatements,
): Pick<Operators<Key>, "deadGroups" | "countDead"> {
  return {
    async deadGroups({ limit = defaults.listLimit, ...filter } = {}) {
      requireBatchSize(limit, "limit");
      deadConditions(filter);
      const params = { ...deadParams(filter, null), limit };
      const rows = await runner.execute(statements.deadGroups, params, filter);
      return rows.map((row) => ({
        errorGroup: row.error_group as string,
        count: Number(row.count),
        firstAt: db.dialect.fromTime(row.first_at),
        lastAt: db.dialect.fromTime(row.last_at),
        example: shape.keyOf(row),
        error: row.last_error as string | null,
      }));
    },

    async countDead(filter = {}) {
      deadConditions(filter);
      const [row] = await runner.execute(statements.countDead, deadParams(filter, null), filter);
      return Number(row!.count);
    },
  };
}

/** `replay`, `discard` and `archive` of dead messages by their keys. */
export function changeByKeys<Key extends object, Message extends QueueMessage & Key, State extends string>(
  parts: QueueParts<Key, Message, State>,
  statements: OperatorStatements,
  records: OperationRecords,
): Pick<Operators<Key>, BulkAction> {
  const { runner, options, shape } = parts;
  const settle = settleMessages(parts);
  const statementOf = { replay: parts.statements.replay, ...statements } as const;

  const settleIn = async (
    tx: SqlExecutor | undefined,
    action: BulkAction,
    messages: readonly Key[],
    params: SqlParams,
    { signal }: CallOptions,
  ): Promise<Settlement<Key>> => {
    const [changed, lost]: [Key[], Key[]] = [[], []];
    for (let from = 0; from < messages.length; from += defaults.operationBatchSize) {
      const batch = messages.slice(from, from + defaults.operationBatchSize);
      const what = { verb: action, statement: statementOf[action], params };
      const settled = await settle(batch, omitUndefined({ tx, signal }), what);
      changed.push(...settled.changed);
      lost.push(...settled.lost);
      await yieldToEventLoop();
    }
    return { changed, lost, dead: [] };
  };

  /** The change and its record, in one transaction. What changed nothing is not recorded. */
  const recorded = async (
    action: BulkAction,
    messages: readonly Key[],
    params: SqlParams,
    { by, signal }: CallOptions & { readonly by: string },
  ): Promise<Settlement<Key>> => {
    requireList(messages, "messages");
    if (messages.length === 0) return { changed: [], lost: [], dead: [] };
    if (messages.length > mostKeys)
      throw new ArgumentRangeError(
        `${action}: at most ${mostKeys} messages in one recorded call, not ${messages.length}. Use ${action}Dead with a filter, or several calls.`,
      );
    const { id, settled } = await recordedOnce(runner, records, { signal }, async (tx, id) => {
      const settled = await settleIn(tx, action, messages, params, { signal });
      const done = settled.changed.length;
      if (done === 0) return { id, settled };
      const filter = { keys: settled.changed.map(shape.describe) };
      await records.addEnded(tx, { id, action, by, filter, matched: messages.length, done }, { signal });
      return { id, settled };
    });
    const done = settled.changed.length;
    if (done > 0) logEnded(options.logger, { id, action, by, done });
    return settled;
  };

  return {
    async replay(messages, call) {
      refuseUnknown(call, ["ttlMs", "by", "signal"], "replay");
      const { ttlMs, by, signal } = call;
      requireBy(by, "replay");
      if (ttlMs !== undefined) requireDuration(ttlMs, "ttlMs");
      return recorded("replay", messages, { ttl_ms: ttlMs ?? null }, { by, signal });
    },

    async discard(messages, call) {
      requireOperator(call, "discard");
      return recorded("discard", messages, {}, call);
    },

    async archive(messages, call) {
      requireOperator(call, "archive");
      return recorded("archive", messages, { who: call.by, ended_as: "archived" }, call);
    },
  };
}

/** Enqueues a message with this content instead of `message`, and returns its key. */
export type EnqueueEdited<Key, Message> = (
  message: Message,
  content: MessageContent,
  call: CallOptions & { readonly tx: SqlExecutor },
) => Promise<Key>;

export function editOperation<Key extends object, Message extends QueueMessage & Key, State extends string>(
  { db, shape, statements, options, runner }: QueueParts<Key, Message, State>,
  operators: OperatorStatements,
  records: OperationRecords,
  enqueue: EnqueueEdited<Key, Message>,
): Pick<Operators<Key>, "editAndReplay"> {
  /** Archives the message with its attempts, if it is dead. */
  const takeDead = async (tx: SqlExecutor, key: Key, { by, ...call }: OperatorOptions): Promise<Message> => {
    const [row] = await runner.executeIn(tx, statements.get, shape.keyParams(key), call);
    const message = row && shape.toMessage(row, db.dialect);
    const params = { items: JSON.stringify([message?.seq ?? 0]), who: by, ended_as: "replaced" };
    const gone = message === undefined ? [] : await runner.executeIn(tx, operators.archive, params, call);
    if (message === undefined || gone.length === 0)
      throw new InvalidOperationError(
        `editAndReplay: ${shape.keyText(key)} is not a dead message of this queue. Nothing was changed.`,
      );
    return message;
  };

  const editAndReplay: Operators<Key>["editAndReplay"] = async (given, changes, call) => {
    requireOperator(call, "editAndReplay");
    refuseUnknown(changes, ["topic", "payload", "headers"], "editAndReplay");
    if (Object.values(changes).every((value) => value === undefined))
      throw new InvalidArgumentError("editAndReplay: nothing is changed. Use replay.");
    const key = shape.key(given);
    const { by, signal } = call;
    const { id, to } = await recordedOnce(runner, records, { signal }, async (tx, id) => {
      const message = await takeDead(tx, key, { by, signal });
      const content = editedContent(message, changes, shape.idOf(key));
      const to = await enqueue(message, content, { tx, signal });
      const filter = { from: shape.describe(key), to };
      await records.addEnded(tx, { id, action: "edit", by, filter, matched: 1, done: 1 }, { signal });
      return { id, to };
    });
    logEnded(options.logger, { id, action: "edit", by, done: 1 });
    return to;
  };

  return { editAndReplay };
}

/** The header of an edited message that names the archived one. */
const editedFrom = "oncebox-edited-from";

/** As after a replay, without the old expiry. */
const editedContent = (message: QueueMessage, changes: EditedContent, from: string): MessageContent => ({
  topic: changes.topic ?? message.topic,
  payload: changes.payload ?? message.payload,
  headers: {
    ...(changes.headers === undefined ? message.headers : optionalHeaders(changes.headers)),
    [editedFrom]: from,
  },
  correlationId: message.correlationId ?? from,
  partitionKey: message.partitionKey,
});
