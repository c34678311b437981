import { uuidV7 } from "../base/uuid-v7.js";
import { yieldToEventLoop } from "../base/wait.js";
import { requireList } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import { defaults } from "./defaults.js";
import type { OperatorStatements } from "./dialect.js";
import { logEnded, type OperationRecords, requireOperator, startRecord } from "./operation-record.js";
import type { Operations, QueueParts } from "./queue-parts.js";
import { settleMessages } from "./settle-messages.js";

/** `discard` of messages by their keys, batch by batch. */
export function discardOperation<
  Key extends object,
  Message extends QueueMessage & Key,
  State extends string,
>(
  parts: QueueParts<Key, Message, State>,
  statements: OperatorStatements,
  records: OperationRecords,
): Operations<Key, Message, State, "discard"> {
  const { runner, options } = parts;
  const settle = settleMessages(parts);
  return {
    async discard(messages, call) {
      requireList(messages, "messages");
      requireOperator(call, "discard");
      const { by, signal } = call;
      const changed: Key[] = [];
      const lost: Key[] = [];
      if (messages.length === 0) return { changed, lost, dead: [] };
      const filter = { keys: messages.length };
      let operation = await startRecord(
        runner,
        records,
        { id: uuidV7(), action: "discard", by, filter },
        { signal },
        async () => messages.length,
      );
      for (let from = 0; from < messages.length; from += defaults.operationBatchSize) {
        const batch = messages.slice(from, from + defaults.operationBatchSize);
        const ended = from + batch.length >= messages.length;
        const { id, done, matched, cursor } = operation;
        const result = await runner.atomically(async (tx) => {
          const settled = await settle(
            batch,
            { tx, signal },
            {
              verb: "discard",
              statement: statements.discard,
              params: {},
            },
          );
          const progress = { matched, done: done + settled.changed.length, cursor, ended };
          operation = await records.move(tx, id, progress, { signal });
          return settled;
        }, call);
        changed.push(...result.changed);
        lost.push(...result.lost);
        await yieldToEventLoop();
      }
      logEnded(options.logger, operation);
      return { changed, lost, dead: [] };
    },
  };
}
