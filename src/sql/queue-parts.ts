import type { QueueMessage } from "../queue/message.js";
import type { WorkStore } from "../queue/work-store.js";
import type { AnnounceDead } from "./announce-dead.js";
import type { Database, QueueStatements } from "./dialect.js";
import type { SqlExecutor } from "./driver.js";
import type { QueueShape } from "./queue-shape.js";
import type { StatementRunner } from "./statement-runner.js";
import type { ResolvedStoreOptions } from "./store-options.js";

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
