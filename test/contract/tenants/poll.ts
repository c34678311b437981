import { randomUUID } from "node:crypto";
import { expect, it } from "vitest";
import { omitUndefined } from "../../../src/base/defined.js";
import { createInbox } from "../../../src/inbox/inbox.js";
import { operatorsOf } from "../../../src/operators/operators-of.js";
import { createOutbox } from "../../../src/outbox/outbox.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { migrate } from "../../../src/sql/migrate.js";
import { type Due, poll, pollStatement } from "../../../src/tenants/connections/tenant-stores.js";
import type { TestDatabase } from "../harness.js";

const message = (messageId: string) => ({ source: "test", messageId, topic: "t", payload: "" });
const outgoing = { topic: "t", payload: "" };
const nothing: Due = { inbox: false, outbox: false };

/** New tables, and a poll of them as a dispatcher of many tenants does it. */
async function freshTables({ db, schema }: TestDatabase) {
  const suffix = randomUUID().slice(0, 8);
  const tables = { schema, inbox: `poll_in_${suffix}`, outbox: `poll_out_${suffix}` };
  const common = { ...omitUndefined({ schema }), retry: { baseMs: 1, maxMs: 1, jitterMs: 0 } };
  await migrate(db, omitUndefined(tables));
  const inbox = createInbox(db, { ...common, table: tables.inbox });
  const outbox = createOutbox(db, { ...common, table: tables.outbox });
  const stores = { db, pollStatement: pollStatement(db.dialect, tables) };
  return { inbox, outbox, polled: () => poll(stores, 60_000) };
}

/** What a poll must return. A dialect without a statement for it claims instead. */
export function pollTests(database: () => TestDatabase): void {
  it("FUN-07 a poll returns for each queue whether a claim would find a message", async ({ skip }) => {
    skip(database().db.dialect.pollStatement === undefined, "this dialect has no statement for a poll");
    const { inbox, outbox, polled } = await freshTables(database());
    const owner = newOwnerToken();
    expect(await polled()).toEqual(nothing);
    await inbox.receive(message("1"));
    expect(await polled()).toEqual({ inbox: true, outbox: false });
    await outbox.enqueue(outgoing);
    expect(await polled()).toEqual({ inbox: true, outbox: true });

    const claimed = await inbox.claim({ owner });
    expect(await polled()).toEqual({ inbox: false, outbox: true });
    await inbox.release(owner, claimed);
    expect((await polled()).inbox).toBe(true);
    await inbox.ack(owner, await inbox.claim({ owner }));
    await outbox.ack(owner, await outbox.claim({ owner }));
    expect(await polled()).toEqual(nothing);
  });

  it("FUN-07 ADD-01 a poll finds the head of a partition queue", async ({ skip }) => {
    skip(database().db.dialect.pollStatement === undefined, "this dialect has no statement for a poll");
    const { inbox, outbox, polled } = await freshTables(database());
    const owner = newOwnerToken();
    const keyed = { partitionKey: "k" };
    await inbox.enqueue([
      { ...message("1"), ...keyed },
      { ...message("2"), ...keyed },
    ]);
    await outbox.enqueue([{ ...outgoing, ...keyed }]);
    expect(await polled()).toEqual({ inbox: true, outbox: true });
    const first = await inbox.claim({ owner });
    expect(first).toHaveLength(1);
    await outbox.ack(owner, await outbox.claim({ owner }));
    expect(await polled()).toEqual(nothing);
    await inbox.ack(owner, first);
    expect(await polled()).toEqual({ inbox: true, outbox: false });
  });

  it("FUN-07 a poll does not find messages that are not due yet, dead or leased, and finds those whose lease expired", async ({
    skip,
  }) => {
    skip(database().db.dialect.pollStatement === undefined, "this dialect has no statement for a poll");
    const { inbox, outbox, polled } = await freshTables(database());
    const owner = newOwnerToken();
    const later = new Date(Date.now() + 3_600_000);
    await inbox.receive({ ...message("later"), dueAt: later });
    await outbox.enqueue({ ...outgoing, dueAt: later });
    await inbox.alreadyProcessed(message("seen"));
    await inbox.markProcessing(message("seen"));
    expect(await polled()).toEqual(nothing);
    await inbox.receive(message("dies"));
    await inbox.fail(owner, await inbox.claim({ owner }), "no");
    expect(await polled()).toEqual(nothing);
    await inbox.receive(message("waits"));
    await inbox.abandon(owner, await inbox.claim({ owner }), { delayMs: 3_600_000 });
    expect(await polled()).toEqual(nothing);
    await outbox.enqueue(outgoing);
    await outbox.claim({ owner, leaseMs: 1 });
    await expect.poll(polled).toEqual({ inbox: false, outbox: true });
    expect(await outbox.claim({ owner })).toHaveLength(1);
  });

  it("FUN-07 ADD-17 a poll finds nothing in a paused queue, and messages that wait for a limit", async ({
    skip,
  }) => {
    skip(database().db.dialect.pollStatement === undefined, "this dialect has no statement for a poll");
    const { inbox, outbox, polled } = await freshTables(database());
    const owner = newOwnerToken();
    const by = { by: "alice" };
    await inbox.receive(message("1"));
    await outbox.enqueue([outgoing, outgoing]);
    await operatorsOf(inbox).pause("all", by);
    expect(await polled()).toEqual({ inbox: false, outbox: true });
    await operatorsOf(inbox).resume("all", by);
    expect(await polled()).toEqual({ inbox: true, outbox: true });
    await operatorsOf(inbox).pause({ topic: "t" }, by);
    await inbox.claim({ owner });
    expect(await polled()).toEqual({ inbox: false, outbox: true });
    await operatorsOf(outbox).limit({ topic: "t", perSecond: 0.01 }, by);
    expect(await outbox.claim({ owner })).toHaveLength(1);
    expect(await polled()).toEqual({ inbox: false, outbox: true });
    await operatorsOf(outbox).pause("all", by);
    expect(await polled()).toEqual(nothing);
  });
}
