import type { Logger } from "../base/logger.js";
import { InvalidArgumentError } from "../errors.js";
import type { QueueKind } from "../queue/any-queue.js";
import { nameProblem, refuseUnknown } from "../queue/arguments.js";
import type { Operation, OperationAction } from "../queue/dead-letters.js";
import type { CallOptions } from "../queue/work-store.js";
import type { Dialect, OperatorStatements } from "../sql/dialect.js";
import type { SqlExecutor, SqlRow } from "../sql/driver.js";
import { rowNumber } from "../sql/row-number.js";
import type { StatementRunner } from "../sql/statement-runner.js";

export interface NewOperation {
  readonly id: string;
  readonly action: OperationAction;
  readonly by: string;
  readonly filter: object;
}

/** What changes in a record. */
export type OperationProgress = Pick<Operation, "matched" | "done" | "cursor"> & {
  readonly ended: boolean;
  /** Who goes on with it after an interruption. */
  readonly resumedBy?: string | undefined;
};

/** The records of what operators do to one queue. */
export interface OperationRecords {
  add(tx: SqlExecutor, operation: NewOperation, call: CallOptions): Promise<Operation>;
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
  return {
    async add(tx, { id, action, by, filter }, call) {
      const params = { id, action, who: by, filter: JSON.stringify(filter) };
      const [row] = await executeIn(tx, statements.addOperation, params, call);
      return operationOf(row!);
    },
    async find(tx, id, call) {
      const [row] = await executeIn(tx, statements.lockOperation, { id }, call);
      return row && operationOf(row);
    },
    async move(tx, id, { matched, done, cursor, ended, resumedBy }, call) {
      const params = { id, matched, done, ended, last_seq: cursor, who: resumedBy ?? null };
      const [row] = await executeIn(tx, statements.moveOperation, params, call);
      return operationOf(row!);
    },
    get: async (id, call) => (await read(id, 1, call))[0],
    list: (limit, call) => read(null, limit, call),
  };
}

/** The column also has the name of the table, such as `inbox:Inbox`. */
const kindOf = (queue: string): QueueKind => (queue.startsWith("inbox") ? "inbox" : "outbox");

/** The id is made before the transaction: one that is repeated after its commit was lost finds its own record. */
export const startRecord = (
  { atomically }: Pick<StatementRunner, "atomically">,
  records: OperationRecords,
  operation: NewOperation,
  call: CallOptions,
  count: (tx: SqlExecutor, operation: Operation) => Promise<number>,
): Promise<Operation> =>
  atomically(async (tx) => {
    const found = await records.find(tx, operation.id, call);
    if (found !== undefined) return found;
    const added = await records.add(tx, operation, call);
    const matched = await count(tx, added);
    return records.move(tx, added.id, { matched, done: 0, cursor: 0, ended: matched === 0 }, call);
  }, call);

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
