import { describe, expect, inject, it } from "vitest";
import {
  createDispatcher,
  createInbox,
  type Inbox,
  type InboxMessage,
  migrate,
  type SqlExecutor,
  timeBudget,
} from "../../src/index.js";
import { postgresHarness } from "../support/postgres-harness.js";

describe("a transactional handler whose commit is slow", () => {
  it("IBX-078 the other messages of its claim are renewed meanwhile", async () => {
    const database = await postgresHarness(inject("postgresUrl")).open();
    const { db, schema } = database;
    const named = schema === undefined ? {} : { schema };
    await migrate(db, { ...named, outbox: false });
    const inbox = createInbox(db, named);
    await inbox.enqueue([
      { source: "s", messageId: "1", topic: "slow commit", payload: "" },
      { source: "s", messageId: "2", topic: "other", payload: "" },
    ]);
    let isAcked = false;
    let renewed: (outcome: "renewed" | "failed") => void = () => {};
    const renewal = new Promise<"renewed" | "failed">((resolve) => {
      renewed = resolve;
    });
    const store: Inbox = {
      ...inbox,
      transaction: (work, call) =>
        inbox.transaction(async (tx) => {
          const result = await work(tx);
          isAcked = true; // and so its row is locked until the commit
          await renewal;
          return result;
        }, call),
      async renew(owner, messages, leaseMs, call) {
        const counts = isAcked && messages.some(({ messageId }) => messageId === "2");
        try {
          const settlement = await inbox.renew(owner, messages, leaseMs, call);
          if (counts) renewed("renewed");
          return settlement;
        } catch (error) {
          if (counts) renewed("failed");
          throw error;
        }
      },
    };
    const dispatcher = createDispatcher<InboxMessage, SqlExecutor>({
      leaseMs: 1_500,
      handlers: {
        "slow commit": { transactional: true, handle: () => {} },
        other: async () => void (await renewal),
      },
    });
    const result = await dispatcher.run(store, timeBudget(30_000));
    expect(await renewal).toBe("renewed");
    expect(result).toMatchObject({ acked: 2, lost: 0 });
    await database.close();
  });
});
