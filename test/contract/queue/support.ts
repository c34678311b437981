import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { createInbox, type Inbox } from "../../../src/inbox/inbox.js";
import { operatorsOf } from "../../../src/operators/operators-of.js";
import { createOutbox, type Outbox } from "../../../src/outbox/outbox.js";
import type { OwnerToken } from "../../../src/queue/leases.js";
import type {
  InboxKey,
  InboxMessage,
  OutboxKey,
  OutboxMessage,
  QueueMessage,
} from "../../../src/queue/message.js";
import type { Operators } from "../../../src/queue/operators.js";
import type { CallOptions, WorkStore } from "../../../src/queue/work-store.js";
import type { Database } from "../../../src/sql/dialect.js";
import type { SqlExecutor, SqlRow } from "../../../src/sql/driver.js";
import type { StoreOptions } from "../../../src/sql/store-options.js";
import type { TestDatabase } from "../harness.js";
import { shownRows } from "../support/database.js";
import { type QueueKind, type QueueOptions, type QueueSetUp, setUpQueue } from "./set-up.js";

export type AnyMessage = QueueMessage & { readonly state: string; readonly messageId: string };
/** `{ source, messageId }` in an inbox, `{ id }` in an outbox. A claimed message is a key, too. */
export type AnyKey = object;

export interface NewMessage {
  readonly topic: string;
  readonly type?: string | null;
  readonly payload: string;
  readonly correlationId?: string | null | undefined;
  readonly headers?: Readonly<Record<string, string>> | null;
  readonly dueAt?: Date | null;
  readonly expiresAt?: Date | null;
}

export interface AddOptions extends CallOptions {
  readonly tx?: SqlExecutor;
}

export type AnyStore = WorkStore<AnyKey, AnyMessage, string, SqlExecutor>;

/** An inbox or an outbox with what operators do. */
export interface OperatedStore extends AnyStore, Omit<Operators<AnyKey>, "replay"> {
  /** With the replay that is recorded. */
  readonly operators: Operators<AnyKey>;
}

/** With one way to add messages, so that one test proves both. */
export interface QueueStore extends OperatedStore {
  /** `receive` of an inbox, `enqueue` of an outbox. */
  addOne(message: NewMessage, options?: AddOptions): Promise<AnyKey>;
  /** `enqueue` of several messages. */
  add(messages: readonly NewMessage[], options?: AddOptions): Promise<readonly AnyKey[]>;
}

export interface DeadLetter {
  readonly id: string;
  readonly reason: string;
}

/** A queue on a table of its own. */
export interface TestQueue extends Omit<QueueSetUp<AnyKey>, "settings"> {
  readonly store: QueueStore;
  /** What `onDead` was called with. */
  readonly dead: readonly DeadLetter[];
  /** The same table through another database or with other options. */
  on(db: Database, options?: StoreOptions<AnyKey>): QueueStore;
  /** Adds messages and claims them for `owner`. */
  held(count: number, overrides?: Partial<NewMessage>): Promise<readonly AnyMessage[]>;
  /** The message as it is stored now. */
  stored(key: AnyKey): Promise<AnyMessage>;
  /** The rows of the table's view, in the order of their payloads. */
  view(): Promise<readonly SqlRow[]>;
}

/** What inbox and outbox do differently, for the tests that both share. */
interface Adapter {
  /** The queue's own words for a message's states. */
  readonly states: {
    readonly waiting: string;
    readonly held: string;
    readonly done: string;
    readonly dead: string;
  };
  /** Keys that no message can have. */
  readonly badKeys: readonly unknown[];
  open(db: Database, settings: StoreOptions<AnyKey>): QueueStore;
  keyOf(key: AnyKey): AnyKey;
  /** A key as text, to compare sets of messages. */
  idOf(key: AnyKey): string;
  unknownKey(): AnyKey;
  /** When the message was first enqueued. */
  addedAt(message: AnyMessage): Date;
  counts(states: { waiting?: number; held?: number; done?: number; dead?: number }): Record<string, number>;
}

export interface QueueContext extends Adapter {
  readonly kind: QueueKind;
  readonly database: () => TestDatabase;
  queue(options?: QueueOptions<AnyKey>): Promise<TestQueue>;
  /** The keys as sorted texts. */
  ids(keys: readonly AnyKey[]): string[];
}

export function createQueueContext(kind: QueueKind, database: () => TestDatabase): QueueContext {
  const adapter = kind === "inbox" ? inboxAdapter : outboxAdapter;
  return {
    ...adapter,
    kind,
    database,
    queue: (options = {}) => makeQueue(adapter, kind, database(), options),
    ids: (keys) => keys.map(adapter.idOf).sort(),
  };
}

async function makeQueue(
  { open, keyOf, idOf }: Adapter,
  kind: QueueKind,
  database: TestDatabase,
  options: QueueOptions<AnyKey>,
): Promise<TestQueue> {
  const dead: DeadLetter[] = [];
  const { settings, ...made } = await setUpQueue<AnyKey>(database, kind, {
    onDead: ({ message, reason }) => {
      dead.push({ id: idOf(message), reason });
    },
    ...options,
  });
  const store = open(database.db, settings);
  return {
    ...made,
    store,
    dead,
    on: (db, more = {}) => open(db, { ...settings, ...more }),
    async held(count, overrides) {
      await store.add(messages(count, overrides));
      const claimed = await store.claim({ owner: made.owner, batchSize: count });
      expect(claimed).toHaveLength(count);
      return claimed;
    },
    async stored(key) {
      const message = await store.get(keyOf(key));
      if (message === null) throw new Error(`The message ${idOf(key)} is not in the ${kind}.`);
      return message;
    },
    view: () => shownRows(database, `select * from ${made.names.view} order by payload`),
  };
}

const operated = <Queue extends object, Calls extends object>(queue: Queue, operators: Calls) => ({
  ...operators,
  ...queue,
  operators,
});

export const operatedInbox = (inbox: Inbox): OperatedStore => operated(inbox, operatorsOf(inbox));
export const operatedOutbox = (outbox: Outbox): OperatedStore => operated(outbox, operatorsOf(outbox));

let received = 0;

const inboxAdapter: Adapter = {
  states: { waiting: "Processing", held: "Processing", done: "Done", dead: "Dead" },
  badKeys: [null, "x", {}, { source: "test" }, { source: "", messageId: "m" }],
  open(db, settings) {
    const inbox = createInbox(db, settings);
    const incoming = (message: NewMessage) => ({
      source: "test",
      messageId: `message-${String(++received).padStart(6, "0")}`,
      ...message,
    });
    const store = {
      ...operatedInbox(inbox),
      async addOne(message: NewMessage, options?: AddOptions) {
        const one = incoming(message);
        await inbox.receive(one, options);
        return inboxKeyOf(one);
      },
      async add(many: readonly NewMessage[], options?: AddOptions) {
        const all = many.map(incoming);
        await inbox.enqueue(all, options);
        return all.map(inboxKeyOf);
      },
    };
    return store;
  },
  keyOf: (key) => inboxKeyOf(key as InboxKey),
  idOf: (key) => JSON.stringify([(key as InboxKey).source, (key as InboxKey).messageId]),
  unknownKey: () => ({ source: "test", messageId: `unknown-${++received}` }),
  addedAt: (message) => (message as unknown as InboxMessage).firstSeenAt,
  counts: ({ waiting = 0, held = 0, done = 0, dead = 0 }) => ({
    Seen: 0,
    Processing: waiting + held,
    Done: done,
    Dead: dead,
  }),
};

const inboxKeyOf = ({ source, messageId }: InboxKey): InboxKey => ({ source, messageId });

const outboxAdapter: Adapter = {
  states: { waiting: "Ready", held: "InProgress", done: "Done", dead: "Failed" },
  badKeys: [null, "x", {}, { id: "7" }],
  open(db, settings) {
    const outbox = createOutbox(db, settings);
    const store = {
      ...operatedOutbox(outbox),
      addOne: async (message: NewMessage, options?: AddOptions) => ({
        id: await outbox.enqueue(message, options),
      }),
      add: async (many: readonly NewMessage[], options?: AddOptions) =>
        (await outbox.enqueue(many, options)).map((id) => ({ id })),
    };
    return store;
  },
  keyOf: (key) => ({ id: (key as OutboxKey).id }),
  idOf: (key) => (key as OutboxKey).id,
  unknownKey: () => ({ id: randomUUID() }),
  addedAt: (message) => (message as unknown as OutboxMessage).createdAt,
  counts: ({ waiting = 0, held = 0, done = 0, dead = 0 }) => ({
    Ready: waiting,
    InProgress: held,
    Done: done,
    Failed: dead,
  }),
};

/** `count` messages whose payloads are their numbers: "000", "001", … */
export function messages(count: number, overrides: Partial<NewMessage> = {}): NewMessage[] {
  return Array.from({ length: count }, (_, index) => ({
    topic: "test",
    payload: String(index).padStart(3, "0"),
    ...overrides,
  }));
}

/** Claims until nothing is due. The owner holds what this returns. */
export async function claimAll<Message>(
  store: { claim(options: { owner: OwnerToken; batchSize: number }): Promise<readonly Message[]> },
  owner: OwnerToken,
  batchSize = 100,
): Promise<Message[]> {
  const all: Message[] = [];
  for (;;) {
    const claimed = await store.claim({ owner, batchSize });
    if (claimed.length === 0) return all;
    all.push(...claimed);
  }
}

/** What an owner can do with the messages it holds, each with the same parameters. */
export const verbs = {
  ack: (store: AnyStore, owner: OwnerToken, keys: readonly AnyKey[]) => store.ack(owner, keys),
  abandon: (store: AnyStore, owner: OwnerToken, keys: readonly AnyKey[]) => store.abandon(owner, keys),
  fail: (store: AnyStore, owner: OwnerToken, keys: readonly AnyKey[]) => store.fail(owner, keys, "no"),
  release: (store: AnyStore, owner: OwnerToken, keys: readonly AnyKey[]) => store.release(owner, keys),
  renew: (store: AnyStore, owner: OwnerToken, keys: readonly AnyKey[]) => store.renew(owner, keys, 45_000),
} as const;
export type Verb = keyof typeof verbs;
export const verbNames = Object.keys(verbs) as Verb[];

/** How a call ended. A call that throws before there is a promise escapes the caller's `.catch`. */
export async function outcomeOf(call: () => Promise<unknown>): Promise<string> {
  let result: Promise<unknown>;
  try {
    result = call();
  } catch (error) {
    return `threw ${(error as Error).name}`;
  }
  return result.then(
    () => "resolved",
    (error: Error) => `rejected ${error.name}`,
  );
}
