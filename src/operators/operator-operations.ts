import { isGuid } from "../base/guid.js";
import { uuidV7 } from "../base/uuid-v7.js";
import { InvalidArgumentError, InvalidOperationError } from "../errors.js";
import { requireBatchSize } from "../queue/arguments.js";
import {
  type BulkAction,
  bulkActions,
  type ContinueOptions,
  type DeadFilter,
  type Operation,
} from "../queue/dead-letters.js";
import type { QueueMessage } from "../queue/message.js";
import type { Operators } from "../queue/operators.js";
import type { CallOptions } from "../queue/work-store.js";
import { defaults } from "../sql/defaults.js";
import type { DeadStatements, OperatorStatements } from "../sql/dialect.js";
import type { SqlExecutor } from "../sql/driver.js";
import { deadConditions, deadParams } from "../sql/message-filter.js";
import type { QueueParts } from "../sql/queue-parts.js";
import { rowNumber } from "../sql/row-number.js";
import {
  logEnded,
  type OperationRecords,
  requireBy,
  requireOperator,
  startRecord,
} from "./operation-record.js";

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
      const operation = { id: uuidV7(), action, by: call.by, filter: conditions };
      return startRecord(runner, records, operation, call, async (tx, { at }) => {
        const params = deadParams(conditions, db.dialect.toTime(at));
        const [row] = await runner.executeIn(tx, statements.countDead, params, call);
        return Number(row!.count);
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
