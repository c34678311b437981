import { checkCall, plainCall } from "../queue/check-call.js";
import type { QueueMessage } from "../queue/message.js";
import type { WorkStore } from "../queue/work-store.js";
import { type AnnounceDead, announceDeadTo } from "./announce-dead.js";
import { claimOperation } from "./claim-operation.js";
import type { SqlExecutor } from "./driver.js";
import { maintainOperations } from "./maintain-operations.js";
import { migrate } from "./migrate.js";
import { partsKey, type QueueParts } from "./queue-parts.js";
import { readOperations } from "./read-operations.js";
import { replayOperation } from "./replay-operation.js";
import { type SettleMessages, settleMessages } from "./settle-messages.js";
import { settleOperations } from "./settle-operations.js";
import { type StatementRunner, statementRunner } from "./statement-runner.js";

/** What inbox and outbox need for their own operations. */
export interface StoreInternals<Key> extends Pick<StatementRunner, "executeIn" | "atomically"> {
  readonly announceDead: AnnounceDead<Key>;
  readonly settle: SettleMessages<Key>;
}

export type QueueStoreParts<Key, Message extends QueueMessage, State extends string> = Omit<
  QueueParts<Key, Message, State>,
  "runner" | "announceDead"
>;

/** A work queue on a database: the one implementation, for every dialect and for inbox and outbox alike. */
export function createQueueStore<
  Key extends object,
  Message extends QueueMessage & Key,
  State extends string,
>(
  given: QueueStoreParts<Key, Message, State>,
): WorkStore<Key, Message, State, SqlExecutor> & {
  readonly internals: StoreInternals<Key>;
  readonly [partsKey]: QueueParts<Key, Message, State>;
} {
  const { db, kind, shape, options } = given;
  const runner = statementRunner(db, kind, options, () => {
    const other = kind === "inbox" ? { outbox: false as const } : { inbox: false as const };
    const schema = options.schema === "" ? {} : { schema: options.schema };
    return migrate(db, { ...schema, [kind]: options.table, ...other });
  });
  const announceDead = announceDeadTo(options, shape);
  const parts = { ...given, runner, announceDead };
  return {
    [partsKey]: parts,
    id: options.id,
    queue: options.queue,
    internals: { ...runner, announceDead, settle: settleMessages(parts) },
    async init(call = {}) {
      checkCall(call, plainCall, "init");
      await runner.ready(call);
    },
    async transaction(work, call = {}) {
      checkCall(call, plainCall, "transaction");
      await runner.ready(call);
      return db.driver.transaction(work, { signal: call.signal });
    },
    ...claimOperation(parts),
    ...settleOperations(parts),
    ...maintainOperations(parts),
    ...readOperations(parts),
    ...replayOperation(parts),
  };
}
