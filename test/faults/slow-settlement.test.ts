import { afterEach, beforeEach, describe, expect, inject, it } from "vitest";
import {
  createDispatcher,
  createInbox,
  type Handlers,
  type Inbox,
  type InboxMessage,
  migrate,
  type SqlExecutor,
  timeBudget,
} from "../../src/index.js";
import type { TestDatabase } from "../contract/harness.js";
import { postgresHarness } from "../support/postgres-harness.js";

/** Two messages of one claim: the first is being settled, and its row is locked, while the second is handled. */
describe("while a settlement waits in PostgreSQL", () => {
  let database: TestDatabase;
  let inbox: Inbox;
  beforeEach(async () => {
    database = await postgresHarness(inject("postgresUrl")).open();
    const named = { schema: database.schema! };
    await migrate(database.db, { ...named, outbox: false });
    inbox = createInbox(database.db, named);
    await inbox.enqueue([
      { source: "s", messageId: "1", topic: "first", payload: "", partitionKey: "k" },
      { source: "s", messageId: "2", topic: "second", payload: "" },
    ]);
  });
  afterEach(() => database.close());

  /** How the first renewal of the second message ends that is sent after the acknowledgement of the first. */
  function watchRenewal() {
    let isAckSent = false;
    let end: (outcome: "renewed" | "failed") => void = () => {};
    const outcome = new Promise<"renewed" | "failed">((resolve) => {
      end = resolve;
    });
    const store: Inbox = {
      ...inbox,
      ack(owner, messages, call) {
        isAckSent ||= messages.some((one) => "messageId" in one && one.messageId === "1");
        return inbox.ack(owner, messages, call);
      },
      async renew(owner, messages, leaseMs, call) {
        const counts = isAckSent && messages.some(({ messageId }) => messageId === "2");
        const renewing = inbox.renew(owner, messages, leaseMs, call);
        if (counts)
          renewing.then(
            () => end("renewed"),
            () => end("failed"),
          );
        return renewing;
      },
    };
    return { store, outcome };
  }

  const run = (store: Inbox, handlers: Handlers<InboxMessage, SqlExecutor>) =>
    createDispatcher<InboxMessage, SqlExecutor>({ leaseMs: 1_500, handlers }).run(store, timeBudget(30_000));

  it("IBX-078 for a commit, the leases of the claim's other messages are renewed", async () => {
    const { store, outcome } = watchRenewal();
    const slowCommit: Inbox = {
      ...store,
      transaction: (work, call) =>
        inbox.transaction(async (tx) => {
          const result = await work(tx);
          await outcome;
          return result;
        }, call),
    };
    const result = await run(slowCommit, {
      first: { transactional: true, handle: () => {} },
      second: async () => void (await outcome),
    });
    expect(await outcome).toBe("renewed");
    expect(result).toMatchObject({ acked: 2, lost: 0 });
  });

  it("IBX-078 ADD-01 for the lock of a partition queue, the leases of the claim's other messages are renewed", async () => {
    const { store, outcome } = watchRenewal();
    // as a stopped process holds it that acknowledges a message of the key in a transaction
    const locker = await database.begin();
    const [table] = await database.raw(
      `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = '${database.schema}' and tablename like '%partition%'`,
    );
    const running = run(store, {
      first: () => locker.run(`lock table ${table!.name} in exclusive mode`),
      second: async () => void (await outcome),
    });
    const first = await outcome;
    await locker.rollback();
    expect(first).toBe("renewed");
    expect(await running).toMatchObject({ acked: 2, lost: 0 });
  });
});
