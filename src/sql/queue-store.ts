import type { QueueMessage } from "../queue/message.js";
import type { WorkStore } from "../queue/work-store.js";
import { type AnnounceDead, announceDeadTo } from "./announce-dead.js";
import { claimOperation } from "./claim-operation.js";
import { controlOperations } from "./control-operations.js";
import { deadOperations } from "./dead-operations.js";
import { discardOperation } from "./discard-operation.js";
import type { SqlExecutor } from "./driver.js";
import { type EditOperation, editOperation } from "./edit-operation.js";
import { maintainOperations } from "./maintain-operations.js";
import { migrate } from "./migrate.js";
import { operationRecords } from "./operation-record.js";
import { operatorOperations } from "./operator-operations.js";
import type { QueueParts } from "./queue-parts.js";
import { readOperations } from "./read-operations.js";
import { type SettleMessages, settleMessages } from "./settle-messages.js";
import { settleOperations } from "./settle-operations.js";
import { type StatementRunner, statementRunner } from "./statement-runner.js";

/** What inbox and outbox need for their own operations. */
export interface StoreInternals<Key, Message> extends Pick<StatementRunner, "executeIn" | "atomically"> {
  readonly editAndReplay: EditOperation<Key, Message>;
  readonly announceDead: AnnounceDead<Key>;
  readonly settle: SettleMessages<Key>;
}

export interface QueueStoreParts<Key, Message extends QueueMessage, State extends string>
  extends Omit<QueueParts<Key, Message, State>, "runner" | "announceDead"> {
  readonly kind: "inbox" | "outbox";
}

/** A work queue on a database: the one implementation, for every dialect and for inbox and outbox alike. */
export function createQueueStore<
  Key extends object,
  Message extends QueueMessage & Key,
  State extends string,
>(
  given: QueueStoreParts<Key, Message, State>,
): Omit<WorkStore<Key, Message, State, SqlExecutor>, "editAndReplay"> & {
  readonly internals: StoreInternals<Key, Message>;
} {
  const { db, kind, shape, options } = given;
  const runner = statementRunner(db, kind, options, () => {
    const other = kind === "inbox" ? { outbox: false as const } : { inbox: false as const };
    const schema = options.schema === "" ? {} : { schema: options.schema };
    return migrate(db, { ...schema, [kind]: options.table, ...other });
  });
  const announceDead = announceDeadTo(options, shape);
  const parts = { ...given, runner, announceDead };
  const operators = db.dialect.operators(db.dialect.names(kind, options.schema, options.table));
  const records = operationRecords(db.dialect, operators, runner);
  return {
    id: options.id,
    queue: options.queue,
    internals: {
      ...runner,
      announceDead,
      settle: settleMessages(parts),
      editAndReplay: editOperation(parts, operators, records),
    },
    init: async (call = {}) => runner.ready(call),
    async transaction(work, call = {}) {
      await runner.ready(call);
      return db.driver.transaction(work, { signal: call.signal });
    },
    ...claimOperation(parts),
    ...settleOperations(parts),
    ...maintainOperations(parts),
    ...readOperations(parts),
    ...deadOperations(parts),
    ...operatorOperations(parts, operators, records),
    ...discardOperation(parts, operators, records),
    ...controlOperations(parts, operators, kind),
  };
}
