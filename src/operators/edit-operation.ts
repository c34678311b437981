import { uuidV7 } from "../base/uuid-v7.js";
import { InvalidArgumentError, InvalidOperationError } from "../errors.js";
import { optionalHeaders, refuseUnknown } from "../queue/arguments.js";
import type { EditedContent, OperatorOptions } from "../queue/dead-letters.js";
import type { QueueMessage } from "../queue/message.js";
import type { Operators } from "../queue/operators.js";
import type { CallOptions } from "../queue/work-store.js";
import type { OperatorStatements } from "../sql/dialect.js";
import type { SqlExecutor } from "../sql/driver.js";
import type { MessageContent } from "../sql/message-content.js";
import type { QueueParts } from "../sql/queue-parts.js";
import { logEnded, type OperationRecords, requireOperator } from "./operation-record.js";

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
    // Made before the transaction: one that is repeated after its commit was lost finds its own record.
    const id = uuidV7();
    const made = await runner.atomically(
      async (tx) => {
        const found = await records.find(tx, id, { signal });
        if (found !== undefined) return found.filter.to as Key;
        const message = await takeDead(tx, key, { by, signal });
        const content = edited(message, changes, shape.idOf(key));
        const to = await enqueue(message, content, { tx, signal });
        const filter = { from: shape.describe(key), to };
        await records.add(tx, { id, action: "edit", by, filter }, { signal });
        await records.move(tx, id, { matched: 1, done: 1, cursor: 0, ended: true }, { signal });
        return to;
      },
      { signal },
    );
    logEnded(options.logger, { id, action: "edit", by, done: 1 });
    return made;
  };

  return { editAndReplay };
}

/** The header of an edited message that names the archived one. */
const editedFrom = "oncebox-edited-from";

/** As after a replay, without the old expiry. */
const edited = (message: QueueMessage, changes: EditedContent, from: string): MessageContent => ({
  topic: changes.topic ?? message.topic,
  payload: changes.payload ?? message.payload,
  headers: {
    ...(changes.headers === undefined ? message.headers : optionalHeaders(changes.headers)),
    [editedFrom]: from,
  },
  correlationId: message.correlationId ?? from,
  partitionKey: message.partitionKey,
});
