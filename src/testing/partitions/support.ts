import { expect } from "vitest";
import { createInbox, type Inbox } from "../../inbox/inbox.js";
import { createOutbox, type Outbox } from "../../outbox/outbox.js";
import { newOwnerToken, type OwnerToken } from "../../queue/owner-token.js";
import type { Database } from "../../sql/dialect.js";
import type { SqlExecutor } from "../../sql/driver.js";
import { migrate } from "../../sql/migrate.js";
import type { QueueNames } from "../../sql/names.js";
import type { StoreOptions } from "../../sql/store-options.js";
import type { AnyMessage, AnyStore } from "../dispatch/support.js";
import { type TestClock, type TestDatabase, testClock } from "../harness.js";

export const kinds = ["inbox", "outbox"] as const;
export type Kind = (typeof kinds)[number];

/** A message to enqueue: its name is its payload and, in an inbox, its id. */
export interface Put {
  readonly name: string;
  readonly key?: string;
  readonly dueAt?: Date;
  readonly expiresAt?: Date;
}

export type LineOptions = Pick<StoreOptions<never>, "deadInPartition" | "retry"> & {
  readonly deadOnRedelivery?: "keep" | "revive";
};

/** An inbox or an outbox on a table of its own. */
export interface Lines {
  readonly store: AnyStore;
  /** The same, when it is an inbox. */
  readonly inbox: Inbox;
  readonly outbox: Outbox;
  readonly owner: OwnerToken;
  readonly clock: TestClock;
  readonly names: QueueNames;
  put(...messages: readonly Put[]): Promise<void>;
  putIn(tx: SqlExecutor, ...messages: readonly Put[]): Promise<void>;
  /** Claims, and answers the names. */
  claimed(batchSize?: number): Promise<readonly string[]>;
  /** The message as it is stored now. */
  stored(name: string): Promise<AnyMessage>;
  ack(...names: readonly string[]): Promise<void>;
  /** The same table through another database. */
  on(db: Database): AnyStore;
}

export const key = (name: string): { readonly key: string; readonly name: string } => ({
  key: name.replace(/\d+$/, ""),
  name,
});

let tables = 0;

/** `a1`, `a2` and `b1` are two messages with the key `a` and one with `b`, when they are put by `key`. */
export async function lines(
  database: TestDatabase,
  kind: Kind,
  { deadOnRedelivery, ...options }: LineOptions = {},
): Promise<Lines> {
  const { db } = database;
  const schema = database.schema === undefined ? {} : { schema: database.schema };
  const table = `Line${++tables}`;
  const clock = testClock();
  const settings = { ...schema, table, clock, ...options };
  const inboxSettings = { ...settings, ...(deadOnRedelivery === undefined ? {} : { deadOnRedelivery }) };
  await migrate(db, { ...schema, inbox: false, outbox: false, [kind]: table });
  const inbox = createInbox(db, inboxSettings);
  const outbox = createOutbox(db, settings);
  const store = (kind === "inbox" ? inbox : outbox) as unknown as AnyStore;
  const owner = newOwnerToken();
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
    store,
    inbox,
    outbox,
    owner,
    clock,
    names: db.dialect.names(kind, database.schema ?? db.dialect.defaults.schema, table),
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
    on: (other) =>
      (kind === "inbox"
        ? createInbox(other, inboxSettings)
        : createOutbox(other, settings)) as unknown as AnyStore,
  };
}

/** The tables that hold lines and their locks; nothing is left in them when all messages are finished. */
export const lineTables = (names: QueueNames, dialect: Database["dialect"]["name"]): readonly string[] =>
  dialect === "postgres"
    ? ["_line", "_lane", "_arrived"].map(names.object)
    : dialect === "sqlserver"
      ? ["Line", "Lane", "Arrived"].map(names.object)
      : [names.object("PartitionQueue")];
