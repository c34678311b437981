import { expect } from "vitest";
import { createInbox, type Inbox } from "../../../src/inbox/inbox.js";
import { createOutbox, type Outbox } from "../../../src/outbox/outbox.js";
import type { Database } from "../../../src/sql/dialect.js";
import type { SqlExecutor } from "../../../src/sql/driver.js";
import type { QueueNames } from "../../../src/sql/names.js";
import type { StoreOptions } from "../../../src/sql/store-options.js";
import type { TestDatabase } from "../harness.js";
import { type QueueKind, type QueueSetUp, setUpQueue } from "../queue/set-up.js";
import {
  type AnyKey,
  type AnyMessage,
  type OperatedStore,
  operatedInbox,
  operatedOutbox,
} from "../queue/support.js";

/** A message to enqueue: its name is its payload and, in an inbox, its id. */
export interface Put {
  readonly name: string;
  readonly key?: string;
  readonly topic?: string;
  readonly dueAt?: Date;
  readonly expiresAt?: Date;
}

export type PartitionedQueueOptions = Pick<StoreOptions<AnyKey>, "deadInPartition" | "retry"> & {
  readonly deadOnRedelivery?: "keep" | "revive";
};

/** An inbox or an outbox, on a table of its own, for messages with partition keys. */
export interface PartitionedQueue extends Omit<QueueSetUp<AnyKey>, "settings" | "log"> {
  readonly store: OperatedStore;
  /** The same, when it is an inbox. */
  readonly inbox: Inbox;
  readonly outbox: Outbox;
  put(...messages: readonly Put[]): Promise<void>;
  putIn(tx: SqlExecutor, ...messages: readonly Put[]): Promise<void>;
  /** Claims, and returns the names. */
  claimed(batchSize?: number): Promise<readonly string[]>;
  /** The message as it is stored now. */
  stored(name: string): Promise<AnyMessage>;
  ack(...names: readonly string[]): Promise<void>;
  /** The same table through another database, or with other options. */
  on(db: Database, options?: PartitionedQueueOptions): OperatedStore;
}

/** `key("a1")`, `key("a2")` and `key("b1")` are two messages with the partition key `a` and one with `b`. */
export const key = (name: string): { readonly key: string; readonly name: string } => ({
  key: name.replace(/\d+$/, ""),
  name,
});

export async function partitionedQueue(
  database: TestDatabase,
  kind: QueueKind,
  options: PartitionedQueueOptions = {},
): Promise<PartitionedQueue> {
  const { settings, log: _, ...made } = await setUpQueue<AnyKey>(database, kind, options);
  const open = (db: Database, others: PartitionedQueueOptions = {}): OperatedStore => {
    const all = { ...settings, ...others };
    return kind === "inbox" ? operatedInbox(createInbox(db, all)) : operatedOutbox(createOutbox(db, all));
  };
  const store = open(database.db);
  const [inbox, outbox] = [store as unknown as Inbox, store as unknown as Outbox];
  const { owner } = made;
  const outgoing = ({ name, key: partitionKey, ...times }: Put) => ({
    topic: "t",
    payload: name,
    partitionKey,
    ...times,
  });

  const stored = async (name: string): Promise<AnyMessage> => {
    const { messages } = await store.list({ limit: 1000 });
    const found = messages.find((message) => message.payload === name);
    if (found === undefined) throw new Error(`There is no message ${name}.`);
    return found;
  };

  return {
    ...made,
    store,
    inbox,
    outbox,
    async put(...messages) {
      if (kind === "outbox") await outbox.enqueue(messages.map(outgoing));
      else
        await inbox.enqueue(messages.map((one) => ({ ...outgoing(one), source: "s", messageId: one.name })));
    },
    async putIn(tx, ...messages) {
      await outbox.enqueue(messages.map(outgoing), { tx });
    },
    claimed: async (batchSize = 50) =>
      (await store.claim({ owner, batchSize })).map((message) => message.payload),
    stored,
    async ack(...names) {
      const held = await Promise.all(names.map(stored));
      expect((await store.ack(owner, held)).changed).toHaveLength(names.length);
    },
    on: open,
  };
}

/** The tables of partition queues. They are empty when all messages are finished, on SQL Server after the next claim. */
export const tablesOfPartitions = (
  names: QueueNames,
  dialect: Database["dialect"]["name"],
): readonly string[] =>
  dialect === "postgres"
    ? ["_partition_queue", "_partition_lock", "_pending_arrivals"].map(names.object)
    : dialect === "sqlserver"
      ? ["PartitionQueue", "PartitionChanges"].map(names.object)
      : [names.object("PartitionQueue")];
