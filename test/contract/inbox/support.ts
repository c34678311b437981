import { expect } from "vitest";
import {
  createInbox,
  type Inbox,
  type InboxOptions,
  type IncomingMessage,
} from "../../../src/inbox/inbox.js";
import type { OwnerToken } from "../../../src/queue/leases.js";
import type { InboxKey, InboxMessage } from "../../../src/queue/message.js";
import type { Database } from "../../../src/sql/dialect.js";
import { type ContractHarness, type TestDatabase, useDatabase } from "../harness.js";
import { type QueueOptions, type QueueSetUp, setUpQueue } from "../queue/set-up.js";
import type { LogLine } from "../support/recording-logger.js";

/** An inbox on a table of its own, so that a test can say exactly what a claim returns. */
export interface FreshInbox extends Omit<QueueSetUp<InboxKey>, "settings" | "log"> {
  readonly inbox: Inbox;
  readonly logs: readonly LogLine[];
  /** The same table through another database or with other options. */
  on(db: Database, options?: InboxOptions): Inbox;
}

export interface InboxContext {
  readonly database: () => TestDatabase;
  freshInbox(options?: QueueOptions<InboxKey>): Promise<FreshInbox>;
  /** A message with a key of its own. */
  message(overrides?: Partial<IncomingMessage>): IncomingMessage;
  messages(count: number, overrides?: Partial<IncomingMessage>): IncomingMessage[];
}

/** Call it inside a `describe`: it opens one database for the tests and closes it after them. */
export function createInboxContext(harness: ContractHarness): InboxContext {
  const database = useDatabase(harness);
  let made = 0;
  const message = (overrides: Partial<IncomingMessage> = {}): IncomingMessage => ({
    source: "test",
    messageId: `message-${String(++made).padStart(6, "0")}`,
    topic: "order.created",
    payload: `{"number":${made}}`,
    ...overrides,
  });
  return {
    database,
    freshInbox: (options = {}) => makeInbox(database(), options),
    message,
    messages: (count, overrides) => Array.from({ length: count }, () => message(overrides)),
  };
}

async function makeInbox(database: TestDatabase, options: QueueOptions<InboxKey>): Promise<FreshInbox> {
  const { settings, log, ...made } = await setUpQueue(database, "inbox", options);
  return {
    ...made,
    inbox: createInbox(database.db, settings),
    logs: log,
    on: (db, more = {}) => createInbox(db, { ...settings, ...more }),
  };
}

export interface Holding extends FreshInbox {
  /** The messages that `owner` holds, in the order of arrival. */
  readonly claimed: readonly InboxMessage[];
  /** What `onDead` was called with. */
  readonly dead: readonly (InboxKey & { readonly reason: string })[];
}

/** An inbox whose `owner` holds `count` messages. */
export async function holding(context: InboxContext, count: number): Promise<Holding> {
  const dead: Holding["dead"][number][] = [];
  const fresh = await context.freshInbox({
    onDead: ({ message, reason }) => {
      dead.push({ ...keyOf(message), reason });
    },
  });
  const { inbox, owner } = fresh;
  await inbox.enqueue(context.messages(count));
  const claimed = count === 0 ? [] : await inbox.claim({ owner, batchSize: count });
  expect(claimed).toHaveLength(count);
  return { ...fresh, dead, claimed };
}

export const keyOf = ({ source, messageId }: InboxKey): InboxKey => ({ source, messageId });

/** Keys as sorted texts, to compare sets of messages. */
export const keyTexts = (keys: readonly InboxKey[]): string[] =>
  keys.map((key) => JSON.stringify([key.source, key.messageId])).sort();

/** The message as it is stored now. */
export async function stored(inbox: Inbox, key: InboxKey): Promise<InboxMessage> {
  const message = await inbox.get(keyOf(key));
  if (message === null) throw new Error(`The message ${key.messageId} is not in the inbox.`);
  return message;
}

/** Receives the message and claims it. It must be the only one that is due. */
export async function held(
  inbox: Inbox,
  owner: OwnerToken,
  message: IncomingMessage,
  leaseMs = 30_000,
): Promise<InboxMessage> {
  await inbox.receive(message);
  const claimed = await inbox.claim({ owner, leaseMs });
  if (claimed.length !== 1) throw new Error(`Expected one message to claim, not ${claimed.length}.`);
  return claimed[0]!;
}
