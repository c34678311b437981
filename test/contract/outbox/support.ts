import { expect } from "vitest";
import { createOutbox, type Outbox, type OutboxOptions } from "../../../src/outbox/outbox.js";
import type { OutboxKey, OutboxMessage, OutgoingMessage } from "../../../src/queue/message.js";
import type { Database } from "../../../src/sql/dialect.js";
import type { SqlRow } from "../../../src/sql/driver.js";
import { type ContractHarness, type TestDatabase, useDatabase } from "../harness.js";
import { type QueueOptions, type QueueSetUp, setUpQueue } from "../queue/set-up.js";
import { shownRows } from "../support/database.js";

/** An outbox on a table of its own, so that a test can say exactly what a claim returns. */
export interface Box extends Omit<QueueSetUp<OutboxKey>, "settings"> {
  readonly outbox: Outbox;
  /** The same table through another database or with other options. */
  on(db: Database, options?: OutboxOptions): Outbox;
  /** Enqueues messages and claims them for `owner`. */
  held(count: number): Promise<readonly OutboxMessage[]>;
  /** The rows of the table's view, in the order of their payloads. */
  view(): Promise<readonly SqlRow[]>;
}

export interface OutboxContext {
  readonly database: () => TestDatabase;
  box(options?: QueueOptions<OutboxKey>): Promise<Box>;
}

/** Call it inside a `describe`: it opens one database for the tests and closes it after them. */
export function createOutboxContext(harness: ContractHarness): OutboxContext {
  const database = useDatabase(harness);
  return { database, box: (options = {}) => makeBox(database(), options) };
}

async function makeBox(database: TestDatabase, options: QueueOptions<OutboxKey>): Promise<Box> {
  const { settings, ...made } = await setUpQueue(database, "outbox", options);
  const outbox = createOutbox(database.db, settings);
  return {
    ...made,
    outbox,
    on: (db, more = {}) => createOutbox(db, { ...settings, ...more }),
    async held(count) {
      await outbox.enqueue(numbered(count));
      const claimed = await outbox.claim({ owner: made.owner, batchSize: count });
      expect(claimed).toHaveLength(count);
      return claimed;
    },
    view: () => shownRows(database, `select * from ${made.names.view} order by payload`),
  };
}

/** `count` messages whose payloads are their numbers: "000", "001", … */
export const numbered = (count: number): OutgoingMessage[] =>
  Array.from({ length: count }, (_, index) => ({
    topic: "test",
    payload: String(index).padStart(3, "0"),
  }));

/** The message as it is stored now. */
export async function stored(outbox: Outbox, key: OutboxKey): Promise<OutboxMessage> {
  const message = await outbox.get({ id: key.id });
  if (message === null) throw new Error(`The message ${key.id} is not in the outbox.`);
  return message;
}
