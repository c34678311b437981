import { randomUUID } from "node:crypto";
import { expect, it } from "vitest";
import { createInbox } from "../../inbox/inbox.js";
import { createOutbox } from "../../outbox/outbox.js";
import { newOwnerToken } from "../../queue/owner-token.js";
import { migrate } from "../../sql/migrate.js";
import { type Due, dueQuestion } from "../../tenants/scheduling/poll.js";
import type { TestDatabase } from "../harness.js";

const message = (messageId: string) => ({ source: "test", messageId, topic: "t", payload: "" });
const outgoing = { topic: "t", payload: "" };
const nothing: Due = { inbox: false, outbox: false };

/** Tables of their own, and the question that a dispatcher of many tenants asks of them. */
async function freshTables({ db, schema }: TestDatabase) {
  const suffix = randomUUID().slice(0, 8);
  const tables = { schema, inbox: `due_in_${suffix}`, outbox: `due_out_${suffix}` };
  const common = {
    ...(schema === undefined ? {} : { schema }),
    retry: { baseMs: 1, maxMs: 1, jitterMs: 0 },
  };
  await migrate(db, {
    ...(schema === undefined ? {} : { schema }),
    inbox: tables.inbox,
    outbox: tables.outbox,
  });
  const inbox = createInbox(db, { ...common, table: tables.inbox });
  const outbox = createOutbox(db, { ...common, table: tables.outbox });
  const question = dueQuestion();
  return { inbox, outbox, due: () => question({ db, tables }, 60_000) };
}

/** What the question must answer. A dialect that cannot ask it is claimed from, and has nothing to test here. */
export function dueTests(database: () => TestDatabase): void {
  it("FUN-07 says of each queue whether a claim would find something", async ({ skip }) => {
    if (database().db.dialect.due === undefined) skip("needs a dialect that can say what is due");
    const { inbox, outbox, due } = await freshTables(database());
    const owner = newOwnerToken();
    expect(await due()).toEqual(nothing);
    await inbox.receive(message("1"));
    expect(await due()).toEqual({ inbox: true, outbox: false });
    await outbox.enqueue(outgoing);
    expect(await due()).toEqual({ inbox: true, outbox: true });

    const claimed = await inbox.claim({ owner });
    expect(await due()).toEqual({ inbox: false, outbox: true });
    await inbox.release(owner, claimed);
    expect((await due()).inbox).toBe(true);
    await inbox.ack(owner, await inbox.claim({ owner }));
    await outbox.ack(owner, await outbox.claim({ owner }));
    expect(await due()).toEqual(nothing);
  });

  it("FUN-07 ADD-01 of messages with the same key it finds the one whose turn it is", async ({ skip }) => {
    if (database().db.dialect.due === undefined) skip("needs a dialect that can say what is due");
    const { inbox, outbox, due } = await freshTables(database());
    const owner = newOwnerToken();
    const keyed = { partitionKey: "k" };
    await inbox.enqueue([
      { ...message("1"), ...keyed },
      { ...message("2"), ...keyed },
    ]);
    await outbox.enqueue([{ ...outgoing, ...keyed }]);
    expect(await due()).toEqual({ inbox: true, outbox: true });
    const first = await inbox.claim({ owner });
    expect(first).toHaveLength(1);
    await outbox.ack(owner, await outbox.claim({ owner }));
    expect(await due()).toEqual(nothing);
    await inbox.ack(owner, first);
    expect(await due()).toEqual({ inbox: true, outbox: false });
  });

  it("FUN-07 passes over what is not due yet, what is dead and what is held, and finds what was lost", async ({
    skip,
  }) => {
    if (database().db.dialect.due === undefined) skip("needs a dialect that can say what is due");
    const { inbox, outbox, due } = await freshTables(database());
    const owner = newOwnerToken();
    const later = new Date(Date.now() + 3_600_000);
    await inbox.receive({ ...message("later"), dueAt: later });
    await outbox.enqueue({ ...outgoing, dueAt: later });
    await inbox.alreadyProcessed(message("seen"));
    await inbox.markProcessing(message("seen"));
    expect(await due()).toEqual(nothing);
    await inbox.receive(message("dies"));
    await inbox.fail(owner, await inbox.claim({ owner }), "no");
    expect(await due()).toEqual(nothing);
    await inbox.receive(message("waits"));
    await inbox.abandon(owner, await inbox.claim({ owner }), { delayMs: 3_600_000 });
    expect(await due()).toEqual(nothing);
    await outbox.enqueue(outgoing);
    await outbox.claim({ owner, leaseMs: 1 });
    await expect.poll(due).toEqual({ inbox: false, outbox: true });
    expect(await outbox.claim({ owner })).toHaveLength(1);
  });
}
