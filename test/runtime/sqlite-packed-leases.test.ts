import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createInbox, type Database, type Inbox, migrate, newOwnerToken } from "../../src/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

const start = Date.UTC(2030, 0, 1);

describe("leases on SQLite: one row for a batch of fresh messages, unpacked when they part", () => {
  const owner = newOwnerToken();
  const other = newOwnerToken();
  let db: Database;
  let inbox: Inbox;
  let now: number;

  beforeEach(async () => {
    db = openSqlite({ file: ":memory:" });
    await migrate(db, { outbox: false });
    now = start;
    inbox = createInbox(db, { clock: () => new Date(now), retry: { maxAttempts: 3, baseMs: 1_000 } });
    await inbox.enqueue(["1", "2", "3", "4"].map((id) => message(id)));
  });
  afterEach(() => db.close());

  const key = (messageId: string) => ({ source: "s", messageId });
  const message = (id: string, more: object = {}) => ({ ...key(id), topic: "t", payload: id, ...more });
  const at = (ms: number) => new Date(start + ms);
  const value = async (sql: string) =>
    Object.values((await db.driver.query({ name: "raw", text: sql }, {}))[0]!)[0];
  const rows = async () => [
    await value(`select count(*) from "InboxLeases"`),
    await value(`select count(*) from "InboxState"`),
  ];
  const claim = (token = owner, batchSize = 50) => inbox.claim({ owner: token, batchSize, leaseMs: 10_000 });
  const claimIds = async (token = owner) => (await claim(token)).map((one) => one.messageId);
  const idsOf = (keys: readonly { messageId: string }[]) => keys.map((one) => one.messageId);

  it("IBX-031 a batch is one lease, and done as a whole when all of it is acknowledged", async () => {
    const claimed = await claim();
    expect(await rows()).toEqual([1, 0]);
    expect(await claim(other)).toEqual([]);
    expect((await inbox.ack(owner, claimed)).changed).toEqual(claimed);
    expect(await rows()).toEqual([0, 4]);
    expect((await inbox.stats()).counts).toEqual({ Seen: 0, Processing: 0, Done: 4, Dead: 0 });
    expect(await inbox.get(key("3"))).toMatchObject({ state: "Done", owner: null, processedAt: at(0) });
    expect((await inbox.ack(owner, claimed)).lost).toHaveLength(4);
  });

  it("IBX-033 two batches of one owner are two leases, acknowledged in any order or as one", async () => {
    const [first, second] = [await claim(owner, 2), await claim(owner, 2)];
    expect(await rows()).toEqual([2, 0]);
    expect((await inbox.ack(owner, second)).changed).toHaveLength(2);
    expect(await rows()).toEqual([1, 2]);
    await inbox.enqueue([message("5"), message("6")]);
    const third = await claim(owner, 2);
    expect((await inbox.ack(owner, [...first, ...third])).changed).toHaveLength(4);
    expect((await inbox.stats()).counts).toMatchObject({ Processing: 0, Done: 6 });
  });

  it("IBX-033 a part of a batch is settled each way, and the rest stays held", async () => {
    const [one, two, three, four] = await claim();
    expect((await inbox.ack(owner, [two!])).changed).toEqual([two]);
    expect(await rows()).toEqual([0, 4]);
    expect((await inbox.abandon(owner, [one!], { delayMs: 500 })).changed).toEqual([one]);
    expect((await inbox.fail(owner, [three!], "no")).changed).toEqual([three]);
    expect(await claim(other)).toEqual([]);
    expect((await inbox.release(owner, [four!])).changed).toEqual([four]);
    expect(await claimIds(other)).toEqual(["4"]);
    now = start + 500;
    expect(await claimIds(other)).toEqual(["1"]);
    expect(await inbox.get(key("1"))).toMatchObject({ attempt: 1, owner: other });
    expect((await inbox.stats()).counts).toEqual({ Seen: 0, Processing: 2, Done: 1, Dead: 1 });
  });

  it("IBX-034 a foreign owner settles nothing of a lease, and leaves it packed", async () => {
    const claimed = await claim();
    for (const settled of [
      await inbox.ack(other, claimed),
      await inbox.abandon(other, claimed),
      await inbox.fail(other, claimed, "no"),
      await inbox.release(other, claimed),
      await inbox.renew(other, claimed, 60_000),
    ])
      expect(settled).toMatchObject({ changed: [] });
    expect(await rows()).toEqual([1, 0]);
    expect((await inbox.ack(owner, claimed)).changed).toHaveLength(4);
  });

  it("ADD-11 an expired lease is found by a claim: its messages come back alone, an attempt later", async () => {
    await claim();
    now = start + 60_000;
    expect(await claimIds(other)).toEqual(["1"]);
    expect(await inbox.get(key("1"))).toMatchObject({ attempt: 1, owner: other });
    expect(await claimIds(other)).toEqual(["2"]);
    expect(await inbox.get(key("4"))).toMatchObject({ attempt: 0, owner });
  });

  it("IBX-098 the reaper finds it at the end of the lease, and the renewed part of it not before its own", async () => {
    const claimed = await claim();
    await inbox.renew(owner, claimed.slice(0, 1), 60_000);
    now = start + 10_001;
    expect(await inbox.reapExpired()).toMatchObject({ reaped: 3, dead: 0 });
    expect(await inbox.get(key("1"))).toMatchObject({ attempt: 0, owner, lockedUntil: at(60_000) });
    expect(await inbox.get(key("2"))).toMatchObject({ attempt: 1, owner: null, lockedUntil: null });
    expect((await inbox.ack(owner, claimed)).changed).toEqual(claimed.slice(0, 1));
  });

  it("IBX-003 what is marked by hand leaves its lease", async () => {
    const claimed = await claim();
    await inbox.markProcessed(key("1"));
    await inbox.markDead(key("2"), "by hand");
    await inbox.markProcessing(key("3"));
    const { changed, lost } = await inbox.ack(owner, claimed);
    expect([idsOf(changed), idsOf(lost)]).toEqual([
      ["3", "4"],
      ["1", "2"],
    ]);
    expect((await inbox.stats()).counts).toMatchObject({ Done: 3, Dead: 1 });
  });

  it("IBX-029 a redelivery of a leased message gives it no second chance to be claimed", async () => {
    const claimed = await claim();
    expect(await inbox.receive(message("1"))).toBe("duplicate");
    expect(await inbox.receive(message("2", { dueAt: at(0), payload: "newer" }))).toBe("duplicate");
    expect(await inbox.enqueue([message("3", { expiresAt: at(1) })])).toEqual(["duplicate"]);
    expect(await inbox.alreadyProcessed(key("4"))).toBe(false);
    now = start + 5_000;
    expect(await claim(other)).toEqual([]);
    expect((await inbox.ack(owner, claimed)).changed).toHaveLength(4);
    expect(await inbox.receive(message("2"))).toBe("done");
  });

  it("ADD-02 stats, list, get and the view know who holds a packed message", async () => {
    await claim(owner, 3);
    const held = { state: "Processing", owner, lockedUntil: at(10_000), attempt: 0, afterCrash: false };
    expect(await inbox.get(key("2"))).toMatchObject(held);
    expect((await inbox.list({ state: "Processing", limit: 2 })).messages).toMatchObject([held, held]);
    expect(idsOf((await inbox.list({ after: 2 })).messages)).toEqual(["3", "4"]);
    expect(idsOf((await inbox.list({ state: "Done" })).messages)).toEqual([]);
    now = start + 1_000;
    expect(await inbox.stats()).toEqual({
      counts: { Seen: 0, Processing: 4, Done: 0, Dead: 0 },
      due: 1,
      oldestDueAgeMs: 1_000,
    });
    now = start + 60_000;
    expect((await inbox.stats()).due).toBe(4);
    expect(await value(`select count(*) from "InboxMessages" where OwnerToken = '${owner}'`)).toBe(3);
    expect(await value(`select count(*) from "InboxMessages"`)).toBe(4);
    expect(await rows()).toEqual([1, 0]);
  });

  it("ADD-04 in a transaction the acknowledgement unpacks, and a rollback packs again", async () => {
    const claimed = await claim();
    const failing = inbox.transaction(async (tx) => {
      await inbox.ack(owner, [claimed[0]!], { tx });
      throw new Error("handler failed");
    });
    await expect(failing).rejects.toThrow("handler failed");
    expect(await rows()).toEqual([1, 0]);
    await inbox.transaction((tx) => inbox.ack(owner, [claimed[0]!], { tx }));
    expect((await inbox.stats()).counts).toMatchObject({ Processing: 3, Done: 1 });
  });

  it("IBX-034 a leased message that is deleted by hand leaves nothing behind, and the others to their owner", async () => {
    const claimed = await claim();
    await value(`delete from "Inbox" where message_id = '2' returning seq`);
    expect((await inbox.stats()).counts).toEqual({ Seen: 0, Processing: 3, Done: 0, Dead: 0 });
    const { changed, lost } = await inbox.ack(owner, claimed);
    expect([idsOf(changed), idsOf(lost)]).toEqual([["1", "3", "4"], ["2"]]);
    expect(await rows()).toEqual([0, 3]);
    await inbox.receive(message("2"));
    expect((await inbox.stats()).counts).toMatchObject({ Processing: 1, Done: 3 });
    await claim();
    await value(`delete from "Inbox" where message_id = '2' returning seq`);
    expect(await rows()).toEqual([0, 3]);
  });
});
