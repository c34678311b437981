import { defined } from "../base/defined.js";
import { uuidV7 } from "../base/uuid-v7.js";
import { yieldToEventLoop } from "../base/wait.js";
import { ArgumentRangeError } from "../errors.js";
import { refuseUnknown, requireDuration, requireList } from "../queue/arguments.js";
import type { BulkAction } from "../queue/dead-letters.js";
import type { QueueMessage } from "../queue/message.js";
import type { Operators } from "../queue/operators.js";
import type { CallOptions, Settlement } from "../queue/work-store.js";
import { defaults, mostKeys } from "../sql/defaults.js";
import type { OperatorStatements } from "../sql/dialect.js";
import type { SqlExecutor, SqlParams } from "../sql/driver.js";
import type { QueueParts } from "../sql/queue-parts.js";
import { settleMessages } from "../sql/settle-messages.js";
import { logEnded, type OperationRecords, requireBy, requireOperator } from "./operation-record.js";

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
      const settled = await settle(batch, defined({ tx, signal }), what);
      changed.push(...settled.changed);
      lost.push(...settled.lost);
      await yieldToEventLoop();
    }
    return { changed, lost, dead: [] };
  };

  /** The record and what it tells of, in one transaction. What changed nothing is not recorded. */
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
    // Made before the transaction: one that is repeated after its commit was lost finds its own record, and the result it had.
    const id = uuidV7();
    let settled: Settlement<Key> | undefined;
    const result = await runner.atomically(
      async (tx) => {
        const found = await records.find(tx, id, { signal });
        if (found !== undefined) return settled!;
        settled = await settleIn(tx, action, messages, params, { signal });
        const done = settled.changed.length;
        if (done === 0) return settled;
        const filter = { keys: settled.changed.map(shape.describe) };
        await records.add(tx, { id, action, by, filter }, { signal });
        await records.move(tx, id, { matched: messages.length, done, cursor: 0, ended: true }, { signal });
        return settled;
      },
      { signal },
    );
    const done = result.changed.length;
    if (done > 0) logEnded(options.logger, { id, action, by, done });
    return result;
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
