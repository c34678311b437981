import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { LeasingInboxStore, TryBeginResult } from "../../../src/inbox-store/inbox-store.js";
import { createSqlInboxStore } from "../../../src/inbox-store/sql-inbox-store.js";
import { migrate } from "../../../src/sql/migrate.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { root } from "../../support/markdown.js";

export type Handle = (order: { readonly body: string }) => Promise<void>;

export interface SentMessage {
  readonly messageId: string;
  readonly body: string;
  readonly idempotencyKey?: string;
}

/** A broker with one queue, which the example consumes. */
export interface TestBroker {
  send(message: SentMessage): Promise<void>;
  /** Starts the example's consumer. */
  consume(store: LeasingInboxStore, handle: Handle): Promise<void>;
  close(): Promise<unknown>;
}

/** The function that an example exports. Its types are checked with the example itself. */
export async function exampleOf<Consume>(name: string): Promise<Consume> {
  const loaded = (await import(join(root, "examples/consumers", `${name}.ts`))) as { consumeOrders: Consume };
  return loaded.consumeOrders;
}

/** Call it inside a `describe`. */
export function consumerSuite(open: () => Promise<TestBroker>): void {
  let broker: TestBroker;
  const db = openSqlite({ file: ":memory:" });
  beforeAll(async () => {
    await migrate(db);
    broker = await open();
  });
  afterAll(async () => {
    await broker?.close();
    await db.close();
  });

  it("SVC-02 a duplicate is skipped, by its message id and by its idempotency key; a failed message is delivered again", async () => {
    const { store, until } = observed(createSqlInboxStore(db));
    const handled: string[] = [];
    let failures = 1;
    await broker.consume(store, async ({ body }) => {
      handled.push(body);
      if (body === "fails once" && failures-- > 0) throw new Error("the mail server is away");
    });
    await broker.send({ messageId: "1", body: "first" });
    await broker.send({ messageId: "2", body: "fails once" });
    await broker.send({ messageId: "3", body: "keyed", idempotencyKey: "order-3" });
    await until("finished", 3);
    await broker.send({ messageId: "1", body: "first" });
    await broker.send({ messageId: "2", body: "fails once" });
    await broker.send({ messageId: "4", body: "keyed", idempotencyKey: "order-3" });
    await until("Processed", 3);
    expect(handled.sort()).toEqual(["fails once", "fails once", "first", "keyed"]);
  });
}

type Observed = TryBeginResult["status"] | "finished";

/** The store, with a count of what it answered. */
function observed(store: LeasingInboxStore) {
  const counts = new Map<Observed, number>();
  const waiting = new Set<() => void>();
  const count = (what: Observed) => {
    counts.set(what, (counts.get(what) ?? 0) + 1);
    for (const check of waiting) check();
  };
  return {
    store: {
      ...store,
      async tryBegin(...call: Parameters<LeasingInboxStore["tryBegin"]>) {
        const result = await store.tryBegin(...call);
        count(result.status);
        return result;
      },
      async finish(...call: Parameters<LeasingInboxStore["finish"]>) {
        const result = await store.finish(...call);
        if (result.status === "Processed") count("finished");
        return result;
      },
    },
    /** Resolves when the store has answered so that often. */
    until: (what: Observed, times: number) =>
      new Promise<void>((resolve) => {
        const check = () => {
          if ((counts.get(what) ?? 0) < times) return;
          waiting.delete(check);
          resolve();
        };
        waiting.add(check);
        check();
      }),
  };
}
