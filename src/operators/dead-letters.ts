import { isGuid, uuidV7 } from "../base/uuid.js";
import { ArgumentRangeError, InvalidArgumentError, InvalidOperationError } from "../errors.js";
import { inboxReceiving } from "../inbox/receiver.js";
import { enqueuing } from "../outbox/enqueue.js";
import {
  nameProblem,
  optionalHeaders,
  refuseUnknown,
  requireBatchSize,
  requireDuration,
  requireList,
} from "../queue/arguments.js";
import type { InboxMessage, MessageContent, OutboxMessage } from "../queue/message.js";
import {
  type BulkAction,
  bulkActions,
  type ContinueOptions,
  type DeadFilter,
  type EditedContent,
  type Operation,
  type OperationAction,
  type Operators,
} from "../queue/operators.js";
import type { AnyKey, AnyMessage, CallOptions, Settlement } from "../queue/work-store.js";
import type { OperatorReadStatements, OperatorStatements, OutboxStatements } from "../sql/dialect.js";
import { rowNumber, type SqlExecutor, type SqlParams, type SqlRow } from "../sql/driver.js";
import { deadConditions, deadParams } from "../sql/reads.js";
import { settle } from "../sql/settle.js";
import type { QueueParts } from "../sql/store.js";
import { defaults, maxKeys } from "../sql/store-options.js";

/** A queue with the statements that only operators use. */
export interface OperatedQueue {
  readonly parts: QueueParts;
  readonly statements: OperatorStatements & OperatorReadStatements;
}

type Names =
  | BulkAction
  | "editAndReplay"
  | "startOperation"
  | "continueOperation"
  | "operation"
  | "operations";

/** The operations on dead messages. Each is recorded in the transaction that does it. */
export function deadLetterOperations(operated: OperatedQueue): Pick<Operators<AnyKey>, Names> {
  const { parts, statements } = operated;
  const { db, shape, runner, options } = parts;
  const records = new OperationRecords(operated);
  const statementOf = { replay: parts.statements.replay, ...statements } as const;

  /** Changes messages that are named by their keys. A change of nothing is not recorded. */
  const changeByKeys = async (
    action: BulkAction,
    messages: readonly AnyKey[],
    params: SqlParams,
    { by, signal }: CallOptions & { readonly by: string },
  ): Promise<Settlement<AnyKey>> => {
    requireList(messages, "messages");
    if (messages.length === 0) return { changed: [], lost: [], dead: [] };
    if (messages.length > maxKeys)
      throw new ArgumentRangeError(
        `${action}: at most ${maxKeys} messages in one recorded call, not ${messages.length}. Use ${action}Dead with a filter, or several calls.`,
      );
    const change = { verb: action, statement: statementOf[action], params };
    const { id, settled } = await records.once({ signal }, async (tx, id) => {
      const settled = await settle(parts, messages, { tx, signal }, change);
      const done = settled.changed.length;
      const filter = { keys: settled.changed.map(shape.describe) };
      const operation = { id, action, by, filter, matched: messages.length, done };
      if (done > 0) await records.addEnded(tx, operation, { signal });
      return { id, settled };
    });
    const done = settled.changed.length;
    if (done > 0) records.logEnded({ id, action, by, done });
    return settled;
  };

  /** Archives the message with its attempts, if it is dead. */
  const takeDead = async (
    tx: SqlExecutor,
    key: AnyKey,
    by: string,
    call: CallOptions,
  ): Promise<AnyMessage> => {
    const [row] = await runner.executeIn(tx, parts.statements.get, shape.keyParams(key), call);
    const message = row && shape.toMessage(row, db.dialect);
    const params = { items: JSON.stringify([message?.seq ?? 0]), who: by, resolution: "replaced" };
    const gone = message === undefined ? [] : await runner.executeIn(tx, statements.archive, params, call);
    if (message === undefined || gone.length === 0)
      throw new InvalidOperationError(
        `editAndReplay: ${shape.keyText(key)} is not a dead message of this queue. Nothing was changed.`,
      );
    return message;
  };

  /** One batch of the messages that match and had died when the operation began. */
  const continueIn = async (
    tx: SqlExecutor,
    id: string,
    limit: number,
    { action, resumedBy, signal }: ContinueOptions,
  ): Promise<Operation> => {
    const call = { signal };
    const operation = await records.find(tx, id, call);
    if (operation === undefined || !isBulk(operation.action))
      throw new InvalidOperationError(`There is no operation ${id} on this queue that could be continued.`);
    if (action !== undefined && action !== operation.action)
      throw new InvalidOperationError(
        `The operation ${id} is of the action ${operation.action}, not ${action}.`,
      );
    if (operation.endedAt !== null) return operation;
    const { filter, at, cursor, matched, done } = operation;
    const conditions = deadParams(filter as DeadFilter, db.dialect.toTime(at));
    const next = { ...conditions, after_seq: cursor, limit };
    const seqs = (await runner.executeIn(tx, statements.nextDead, next, call)).map(({ seq }) =>
      rowNumber(seq),
    );
    const who = resumedBy ?? operation.resumedBy ?? operation.by;
    const items = { items: JSON.stringify(seqs), count: seqs.length };
    const params = { ...items, ttl_ms: null, who, resolution: "archived" };
    const changed =
      seqs.length === 0 ? [] : await runner.executeIn(tx, statementOf[operation.action], params, call);
    const progress = {
      matched,
      done: done + changed.length,
      cursor: seqs.at(-1) ?? cursor,
      ended: seqs.length < limit,
      resumedBy,
    };
    return records.move(tx, id, progress, call);
  };

  return {
    async replay(messages, call) {
      refuseUnknown(call, ["ttlMs", "by", "signal"], "replay");
      requireBy(call.by, "replay");
      if (call.ttlMs !== undefined) requireDuration(call.ttlMs, "ttlMs");
      return changeByKeys("replay", messages, { ttl_ms: call.ttlMs ?? null }, call);
    },

    async discard(messages, call) {
      requireOperator(call, "discard");
      return changeByKeys("discard", messages, {}, call);
    },

    async archive(messages, call) {
      requireOperator(call, "archive");
      return changeByKeys("archive", messages, { who: call.by, resolution: "archived" }, call);
    },

    async editAndReplay(given, changes, call) {
      requireOperator(call, "editAndReplay");
      refuseUnknown(changes, ["topic", "payload", "headers"], "editAndReplay");
      if (Object.values(changes).every((value) => value === undefined))
        throw new InvalidArgumentError("editAndReplay: nothing is changed. Use replay.");
      const key = shape.key(given);
      const { by, signal } = call;
      const { id, to } = await records.once({ signal }, async (tx, id) => {
        const message = await takeDead(tx, key, by, { signal });
        const content = editedContent(message, changes, shape.idOf(key));
        const to = await enqueueEdited(parts, message, content, { tx, signal });
        const filter = { from: shape.describe(key), to };
        await records.addEnded(tx, { id, action: "edit", by, filter, matched: 1, done: 1 }, { signal });
        return { id, to };
      });
      records.logEnded({ id, action: "edit", by, done: 1 });
      return to;
    },

    async startOperation(action, filter, call) {
      requireOperator(call, "startOperation");
      if (!bulkActions.includes(action))
        throw new InvalidArgumentError(`action must be ${bulkActions.join(", ")}, not ${String(action)}.`);
      const conditions = deadConditions(filter);
      return records.once(call, async (tx, id) => {
        const { at } = await records.add(tx, { id, action, by: call.by, filter: conditions }, call);
        const params = deadParams(conditions, db.dialect.toTime(at));
        const [row] = await runner.executeIn(tx, statements.countDead, params, call);
        const matched = Number(row!.count);
        return records.move(tx, id, { matched, done: 0, cursor: 0, ended: matched === 0 }, call);
      });
    },

    async continueOperation(id, call = {}) {
      const { batchSize = defaults.operationBatchSize, resumedBy, signal } = call;
      requireBatchSize(batchSize);
      if (resumedBy !== undefined) requireBy(resumedBy, "continueOperation");
      requireId(id);
      const operation = await runner.atomically((tx) => continueIn(tx, id.toLowerCase(), batchSize, call), {
        signal,
      });
      if (resumedBy !== undefined)
        options.logger.info("operation resumed", { operation: operation.id, by: resumedBy });
      if (operation.endedAt !== null) records.logEnded(operation);
      return operation;
    },

    async operation(id, { signal } = {}) {
      requireId(id);
      return (await records.read(id.toLowerCase(), 1, { signal }))[0] ?? null;
    },

    async operations({ limit = defaults.listLimit, signal } = {}) {
      requireBatchSize(limit, "limit");
      return records.read(null, limit, { signal });
    },
  };
}

const isBulk = (action: string): action is BulkAction => bulkActions.includes(action as BulkAction);

function requireId(id: unknown): void {
  if (!isGuid(id)) throw new InvalidArgumentError("An operation is named by its id, a GUID.");
}

/** The header of an edited message that names the archived one. */
const editedFrom = "oncebox-edited-from";

/** As after a replay, without the old expiry. */
const editedContent = (message: AnyMessage, changes: EditedContent, from: string): MessageContent => ({
  topic: changes.topic ?? message.topic,
  type: message.type === message.topic ? null : message.type, // a type that was the topic is that of the new one
  payload: changes.payload ?? message.payload,
  headers: {
    ...(changes.headers === undefined ? message.headers : optionalHeaders(changes.headers)),
    [editedFrom]: from,
  },
  correlationId: message.correlationId ?? from,
  partitionKey: message.partitionKey,
});

/** Enqueues a message with this content instead of `old`, and returns its key. */
async function enqueueEdited(
  parts: QueueParts,
  old: AnyMessage,
  content: MessageContent,
  call: CallOptions & { readonly tx: SqlExecutor },
): Promise<AnyKey> {
  if (parts.kind === "inbox") {
    const { db, options, runner } = parts;
    const key = { source: (old as InboxMessage).source, messageId: uuidV7() };
    await inboxReceiving(db, { ...options, reviveDead: false }, runner).receive({ ...content, ...key }, call);
    return key;
  }
  // It takes over the archived message's natural key. In another topic that could be another message's.
  const isSameTopic = content.topic === old.topic;
  const naturalKey = isSameTopic ? (old as OutboxMessage).naturalKey : null;
  const { enqueue } = enqueuing(parts as QueueParts<OutboxStatements>);
  return { id: await enqueue({ ...content, naturalKey }, call) };
}

interface NewOperation {
  readonly id: string;
  readonly action: OperationAction;
  readonly by: string;
  readonly filter: object;
}

/** What changes in a record. */
type OperationProgress = Pick<Operation, "matched" | "done" | "cursor"> & {
  readonly ended: boolean;
  /** Who continues it after an interruption. */
  readonly resumedBy?: string | undefined;
};

/** The records of what operators do to one queue. */
export class OperationRecords {
  constructor(private readonly operated: Pick<OperatedQueue, "parts" | "statements">) {}

  /**
   * Runs `act`, which records itself under the id, in one transaction. The id is made before: a transaction that is
   * repeated because the response to its commit was lost finds its own record, and `act` does not run again.
   */
  async once<Result>(
    { signal }: CallOptions,
    act: (tx: SqlExecutor, id: string) => Promise<Result>,
  ): Promise<Result> {
    const id = uuidV7();
    let result: { readonly of: Result } | undefined;
    await this.operated.parts.runner.atomically(
      async (tx) => {
        if ((await this.find(tx, id, { signal })) === undefined) result = { of: await act(tx, id) };
      },
      { signal },
    );
    return result!.of;
  }

  add(tx: SqlExecutor, { id, action, by, filter }: NewOperation, call: CallOptions): Promise<Operation> {
    const params = { id, action, who: by, filter: JSON.stringify(filter) };
    return this.write(tx, "addOperation", params, call);
  }

  /** Adds the record of an operation that is complete. */
  async addEnded(
    tx: SqlExecutor,
    { matched, done, ...operation }: NewOperation & Pick<Operation, "matched" | "done">,
    call: CallOptions,
  ): Promise<void> {
    await this.add(tx, operation, call);
    await this.move(tx, operation.id, { matched, done, cursor: 0, ended: true }, call);
  }

  move(tx: SqlExecutor, id: string, progress: OperationProgress, call: CallOptions): Promise<Operation> {
    const { matched, done, cursor, ended, resumedBy } = progress;
    const params = { id, matched, done, ended, last_seq: cursor, who: resumedBy ?? null };
    return this.write(tx, "moveOperation", params, call);
  }

  /** Locks it until the transaction ends. */
  async find(tx: SqlExecutor, id: string, call: CallOptions): Promise<Operation | undefined> {
    const { parts, statements } = this.operated;
    const [row] = await parts.runner.executeIn(tx, statements.lockOperation, { id }, call);
    return row && this.operationOf(row);
  }

  /** The one with the id, or all for null: the unfinished ones first, then the newest. Without a lock. */
  async read(id: string | null, limit: number, call: CallOptions): Promise<readonly Operation[]> {
    const { parts, statements } = this.operated;
    const rows = await parts.runner.execute(statements.operations, { id, limit }, call);
    return rows.map((row) => this.operationOf(row));
  }

  /** One line per operation: who did what, and to how many messages. */
  logEnded({ id, action, by, done }: Pick<Operation, "id" | "action" | "by" | "done">): void {
    this.operated.parts.options.logger.info("operation ended", { operation: id, action, by, done });
  }

  private async write(
    tx: SqlExecutor,
    name: "addOperation" | "moveOperation",
    params: SqlParams,
    call: CallOptions,
  ): Promise<Operation> {
    const { parts, statements } = this.operated;
    const [row] = await parts.runner.executeIn(tx, statements[name], params, call);
    return this.operationOf(row!);
  }

  private operationOf(row: SqlRow): Operation {
    const { fromTime } = this.operated.parts.db.dialect;
    return {
      id: (row.id as string).toLowerCase(),
      action: row.action as OperationAction,
      at: fromTime(row.started_at),
      by: row.who as string,
      queue: this.operated.parts.kind,
      filter: JSON.parse(row.filter as string) as Record<string, unknown>,
      matched: Number(row.matched),
      done: Number(row.done),
      cursor: rowNumber(row.last_seq),
      endedAt: row.ended_at === null ? null : fromTime(row.ended_at),
      resumedBy: row.resumed_by as string | null,
      resumedAt: row.resumed_at === null ? null : fromTime(row.resumed_at),
    };
  }
}

/** Refuses a call that does not say who makes it. */
export function requireOperator(options: { readonly by: string }, what: string): void {
  refuseUnknown(options, ["by", "signal"], what);
  requireBy(options.by, what);
}

function requireBy(by: unknown, what: string): void {
  const problem = nameProblem(by);
  if (problem !== undefined)
    throw new InvalidArgumentError(`${what}: by, which is recorded, ${problem} Pass { by: "a name" }.`);
}
