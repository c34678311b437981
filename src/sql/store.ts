import { checkCall, plainCall } from "../queue/arguments.js";
import type { QueueMessage } from "../queue/message.js";
import type { WorkStore } from "../queue/work-store.js";
import { type AnnounceDead, announceDeadTo } from "./dead-letters.js";
import type { Database, QueueStatements } from "./dialect.js";
import type { SqlExecutor } from "./driver.js";
import {
  claimOperation,
  replayOperation,
  type SettleMessages,
  settleMessages,
  settleOperations,
} from "./leases.js";
import { maintainOperations } from "./maintenance.js";
import type { QueueShape } from "./message-rows.js";
import { migrate } from "./migrate.js";
import { readOperations } from "./reads.js";
import { type StatementRunner, statementRunner } from "./statement-runner.js";
import type { ResolvedStoreOptions } from "./store-options.js";

/** What inbox and outbox need for their own operations. */
export interface StoreInternals<Key> extends Pick<StatementRunner, "executeIn" | "atomically"> {
  readonly announceDead: AnnounceDead<Key>;
  readonly settle: SettleMessages<Key>;
}

type QueueStoreParts<Key, Message extends QueueMessage, State extends string> = Omit<
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

/** What the operations of a queue are made of, for every dialect and for inbox and outbox alike. */
export interface QueueParts<Key, Message extends QueueMessage, State extends string> {
  readonly kind: "inbox" | "outbox";
  readonly db: Database;
  readonly shape: QueueShape<Key, Message, State>;
  readonly statements: QueueStatements;
  readonly options: ResolvedStoreOptions<Key>;
  readonly runner: StatementRunner;
  readonly announceDead: AnnounceDead<Key>;
}

export type Operations<
  Key,
  Message extends QueueMessage & Key,
  State extends string,
  Names extends keyof WorkStore<Key, Message, State, SqlExecutor>,
> = Pick<WorkStore<Key, Message, State, SqlExecutor>, Names>;

/** Where a queue has its parts. What operators do is made of them, by `operatorsOf`, outside of the functions. */
export const partsKey = Symbol("the parts of a queue");
