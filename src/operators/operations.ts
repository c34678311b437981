import type { Logger } from "../base/logger.js";
import { isGuid, uuidV7 } from "../base/uuid.js";
import { InvalidArgumentError, InvalidOperationError } from "../errors.js";
import { nameProblem, refuseUnknown, requireBatchSize } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import {
  type BulkAction,
  bulkActions,
  type ContinueOptions,
  type DeadFilter,
  type Operation,
  type OperationAction,
  type Operators,
} from "../queue/operators.js";
import type { CallOptions, QueueKind } from "../queue/work-store.js";
import type { DeadStatements, Dialect, OperatorStatements } from "../sql/dialect.js";
import { rowNumber, type SqlExecutor, type SqlRow } from "../sql/driver.js";
import { deadConditions, deadParams } from "../sql/reads.js";
import type { StatementRunner } from "../sql/statement-runner.js";
import type { QueueParts } from "../sql/store.js";
import { defaults } from "../sql/store-options.js";

type Names = "startOperation" | "continueOperation" | "operation" | "operations";

/** The operations of operators. Each is recorded, in the transaction in which it is done. */
export function operatorOperations<
  Key extends object,
  Message extends QueueMessage & Key,
  State extends string,
>(
  parts: QueueParts<Key, Message, State>,
  statements: OperatorStatements & Pick<DeadStatements, "countDead">,
  records: OperationRecords,
): Pick<Operators<Key>, Names> {
  const { db, runner, options } = parts;

  /** The dead messages of an operation that come next: those that had died when it began. */
  const nextSeqs = async (
    tx: SqlExecutor,
    { filter, at, cursor }: Operation,
    limit: number,
    call: CallOptions,
  ): Promise<readonly number[]> => {
    const conditions = deadParams(filter as DeadFilter, db.dialect.toTime(at));
    const params = { ...conditions, after_seq: cursor, limit };
    return (await runner.executeIn(tx, statements.nextDead, params, call)).map(({ seq }) => rowNumber(seq));
  };

  const statementOf = { replay: parts.statements.replay, ...statements } as const;

  const continueIn = async (
    tx: SqlExecutor,
    id: string,
    {
      limit,
      action,
      resumedBy,
      ...call
    }: CallOptions & Pick<ContinueOptions, "action" | "resumedBy"> & { readonly limit: number },
  ): Promise<Operation> => {
    const operation = await records.find(tx, id, call);
    if (operation === undefined || !isBulk(operation.action))
      throw new InvalidOperationError(`There is no operation ${id} on this queue that could be continued.`);
    if (action !== undefined && action !== operation.action)
      throw new InvalidOperationError(
        `The operation ${id} is of the action ${operation.action}, not ${action}.`,
      );
    if (operation.endedAt !== null) return operation;
    const seqs = await nextSeqs(tx, operation, limit, call);
    const who = resumedBy ?? operation.resumedBy ?? operation.by;
    const params = {
      ...{ items: JSON.stringify(seqs), count: seqs.length },
      ...{ ttl_ms: null, who, ended_as: "archived" },
    };
    const changed =
      seqs.length === 0 ? [] : await runner.executeIn(tx, statementOf[operation.action], params, call);
    return records.move(
      tx,
      id,
      {
        matched: operation.matched,
        done: operation.done + changed.length,
        cursor: seqs.at(-1) ?? operation.cursor,
        ended: seqs.length < limit,
        resumedBy,
      },
      call,
    );
  };

  return {
    async startOperation(action, filter, call) {
      requireOperator(call, "startOperation");
      if (!bulkActions.includes(action))
        throw new InvalidArgumentError(`action must be ${bulkActions.join(", ")}, not ${String(action)}.`);
      const conditions = deadConditions(filter);
      return recordedOnce(runner, records, call, async (tx, id) => {
        const { at } = await records.add(tx, { id, action, by: call.by, filter: conditions }, call);
        const params = deadParams(conditions, db.dialect.toTime(at));
        const [row] = await runner.executeIn(tx, statements.countDead, params, call);
        const matched = Number(row!.count);
        return records.move(tx, id, { matched, done: 0, cursor: 0, ended: matched === 0 }, call);
      });
    },

    async continueOperation(id, { batchSize = defaults.operationBatchSize, action, resumedBy, signal } = {}) {
      requireBatchSize(batchSize);
      if (resumedBy !== undefined) requireBy(resumedBy, "continueOperation");
      requireId(id);
      const operation = await runner.atomically(
        (tx) => continueIn(tx, id.toLowerCase(), { limit: batchSize, action, resumedBy, signal }),
        { signal },
      );
      if (resumedBy !== undefined)
        options.logger.info("operation resumed", { operation: operation.id, by: resumedBy });
      if (operation.endedAt !== null) logEnded(options.logger, operation);
      return operation;
    },

    async operation(id, { signal } = {}) {
      requireId(id);
      return (await records.get(id.toLowerCase(), { signal })) ?? null;
    },

    async operations({ limit = defaults.listLimit, signal } = {}) {
      requireBatchSize(limit, "limit");
      return records.list(limit, { signal });
    },
  };
}

const isBulk = (action: string): action is BulkAction => bulkActions.includes(action as BulkAction);

function requireId(id: unknown): void {
  if (!isGuid(id)) throw new InvalidArgumentError("An operation is named by its id, a GUID.");
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
  /** Who goes on with it after an interruption. */
  readonly resumedBy?: string | undefined;
};

/** The records of what operators do to one queue. */
export interface OperationRecords {
  add(tx: SqlExecutor, operation: NewOperation, call: CallOptions): Promise<Operation>;
  /** Adds one that is done. */
  addEnded(
    tx: SqlExecutor,
    operation: NewOperation & Pick<Operation, "matched" | "done">,
    call: CallOptions,
  ): Promise<Operation>;
  /** Locks it until the transaction ends. */
  find(tx: SqlExecutor, id: string, call: CallOptions): Promise<Operation | undefined>;
  move(tx: SqlExecutor, id: string, progress: OperationProgress, call: CallOptions): Promise<Operation>;
  /** Without a lock. */
  get(id: string, call: CallOptions): Promise<Operation | undefined>;
  /** The unfinished ones first, then the newest. */
  list(limit: number, call: CallOptions): Promise<readonly Operation[]>;
}

export function operationRecords(
  { fromTime }: Pick<Dialect, "fromTime">,
  statements: OperatorStatements,
  { execute, executeIn }: Pick<StatementRunner, "execute" | "executeIn">,
): OperationRecords {
  const operationOf = (row: SqlRow): Operation => ({
    id: (row.id as string).toLowerCase(),
    action: row.action as OperationAction,
    at: fromTime(row.started_at),
    by: row.who as string,
    queue: kindOf(row.queue as string),
    filter: JSON.parse(row.filter as string) as Record<string, unknown>,
    matched: Number(row.matched),
    done: Number(row.done),
    cursor: rowNumber(row.last_seq),
    endedAt: row.ended_at === null ? null : fromTime(row.ended_at),
    resumedBy: row.resumed_by as string | null,
    resumedAt: row.resumed_at === null ? null : fromTime(row.resumed_at),
  });
  const read = async (id: string | null, limit: number, call: CallOptions) =>
    (await execute(statements.operations, { id, limit }, call)).map(operationOf);
  const add: OperationRecords["add"] = async (tx, { id, action, by, filter }, call) => {
    const params = { id, action, who: by, filter: JSON.stringify(filter) };
    const [row] = await executeIn(tx, statements.addOperation, params, call);
    return operationOf(row!);
  };
  const move: OperationRecords["move"] = async (
    tx,
    id,
    { matched, done, cursor, ended, resumedBy },
    call,
  ) => {
    const params = { id, matched, done, ended, last_seq: cursor, who: resumedBy ?? null };
    const [row] = await executeIn(tx, statements.moveOperation, params, call);
    return operationOf(row!);
  };
  return {
    add,
    move,
    async addEnded(tx, { matched, done, ...operation }, call) {
      await add(tx, operation, call);
      return move(tx, operation.id, { matched, done, cursor: 0, ended: true }, call);
    },
    async find(tx, id, call) {
      const [row] = await executeIn(tx, statements.lockOperation, { id }, call);
      return row && operationOf(row);
    },
    get: async (id, call) => (await read(id, 1, call))[0],
    list: (limit, call) => read(null, limit, call),
  };
}

/** The column also has the name of the table, such as `inbox:Inbox`. */
const kindOf = (queue: string): QueueKind => (queue.startsWith("inbox") ? "inbox" : "outbox");

/**
 * Runs `act`, which records itself under the id, in one transaction. The id is made before: a transaction that is repeated
 * after its commit was lost finds its own record, and the result is the one that `act` had then.
 */
export async function recordedOnce<Result>(
  { atomically }: Pick<StatementRunner, "atomically">,
  records: OperationRecords,
  { signal }: CallOptions,
  act: (tx: SqlExecutor, id: string) => Promise<Result>,
): Promise<Result> {
  const id = uuidV7();
  let result: { readonly of: Result } | undefined;
  await atomically(
    async (tx) => {
      if ((await records.find(tx, id, { signal })) === undefined) result = { of: await act(tx, id) };
    },
    { signal },
  );
  return result!.of;
}

/** One line per operation: who did what, and to how many messages. */
export const logEnded = (logger: Logger, { id, action, by, done }: EndedOperation): void =>
  logger.info("operation ended", { operation: id, action, by, done });

type EndedOperation = Pick<Operation, "id" | "action" | "by" | "done">;

/** Refuses a call that does not say who makes it. */
export function requireOperator(options: { readonly by: string }, what: string): void {
  refuseUnknown(options, ["by", "signal"], what);
  requireBy(options.by, what);
}

export function requireBy(by: unknown, what: string): void {
  const problem = nameProblem(by);
  if (problem !== undefined)
    throw new InvalidArgumentError(`${what}: by, which is recorded, ${problem} Pass { by: "a name" }.`);
}
