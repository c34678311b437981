import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createInbox, type Database, type Inbox, migrate, newOwnerToken } from "../../src/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

const start = Date.UTC(2030, 0, 1);

describe("unclaimed messages on SQLite: due at once, and without a state row until they are claimed", () => {
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
  });
  afterEach(() => db.close());

  const key = (messageId: string) => ({ source: "s", messageId });
  const message = (id: string, more: object = {}) => ({ ...key(id), topic: "t", payload: id, ...more });
  const at = (ms: number) => new Date(start + ms);
  const value = async (sql: string) =>
    Object.values((await db.driver.query({ name: "raw", text: sql }, {}))[0]!)[0];
  const stateRows = () => value(`select count(*) from "InboxState"`);
  const cursor = () => value(`select seq from "InboxCursor"`);
  const claim = (token = owner, batchSize = 50) => inbox.claim({ owner: token, batchSize, leaseMs: 10_000 });
  const idsOf = (keys: readonly { messageId: string }[]) => keys.map((one) => one.messageId);
  const claimIds = async (batchSize = 50) => idsOf(await inbox.claim({ owner, batchSize }));
  /** One by one, because a batch is returned in the order of arrival. */
  const claimOneByOne = async () => {
    const ids: string[] = [];
    for (let next = await claimIds(1); next.length > 0; next = await claimIds(1)) ids.push(...next);
    return ids;
  };

  it("IBX-014 a message gets its state row when it is claimed, one with a due time or an expiry at once", async () => {
    await inbox.enqueue([message("1"), message("2")]);
    await inbox.receive(message("3"));
    expect(await stateRows()).toBe(0);
    await inbox.enqueue([message("4", { dueAt: at(0) }), message("5", { expiresAt: at(1_000) })]);
    expect(await stateRows()).toBe(2);
    expect(await claimIds()).toEqual(["1", "2", "3", "4", "5"]);
    expect(await stateRows()).toBe(5);
    expect(await claimIds()).toEqual([]);
  });

  it("IBX-032 unclaimed, delayed and retried messages are claimed in the order of the times they are due", async () => {
    await inbox.receive(message("retried"));
    await inbox.receive(message("delayed", { dueAt: at(3_000) }));
    await inbox.abandon(owner, await inbox.claim({ owner }), { delayMs: 1_000 });
    now = start + 2_000;
    await inbox.receive(message("new 2"));
    now = start + 4_000;
    await inbox.receive(message("new 4"));
    now = start + 5_000;
    expect(await claimOneByOne()).toEqual(["retried", "new 2", "delayed", "new 4"]);
  });

  it("IBX-032 a batch that takes some unclaimed messages leaves the others to the next, whatever is between them", async () => {
    for (let id = 1; id <= 30; id++) {
      now = start + id;
      await inbox.receive(message(String(id), id % 3 === 0 ? { dueAt: at(60 - id) } : {}));
    }
    now = start + 100;
    const ids: string[] = [];
    for (let batch = await claimIds(4); batch.length > 0; batch = await claimIds(4)) ids.push(...batch);
    expect(ids.map(Number).sort((a, b) => a - b)).toEqual(Array.from({ length: 30 }, (_, i) => i + 1));
    expect(await cursor()).toBe(30);
  });

  it("IBX-032 when the clock goes back, none is lost, none waits for it, and they keep their order", async () => {
    now = start + 10_000;
    await inbox.receive(message("before"));
    now = start;
    await inbox.receive(message("after"));
    await inbox.receive(message("delayed", { dueAt: at(1_000) }));
    expect((await inbox.stats()).due).toBe(2);
    expect(await claimOneByOne()).toEqual(["before", "after"]);
    now = start + 1_000;
    expect(await claimOneByOne()).toEqual(["delayed"]);
  });

  it("IBX-032 a retry that is due does not change the order of unclaimed messages whose clock went back", async () => {
    await inbox.receive(message("retried"));
    await inbox.abandon(owner, await inbox.claim({ owner }), { delayMs: 5_000 });
    now = start + 9_000;
    await inbox.receive(message("late"));
    now = start + 1_000;
    await inbox.receive(message("early"));
    now = start + 10_000;
    expect(await claimOneByOne()).toEqual(["retried", "late", "early"]);
  });

  it("IBX-029 a redelivery with a due time delays an unclaimed message, one with an expiry ends it", async () => {
    await inbox.enqueue([message("delayed"), message("expiring"), message("same")]);
    expect(await inbox.receive(message("delayed", { dueAt: at(5_000) }))).toBe("duplicate");
    expect(await inbox.enqueue([message("expiring", { expiresAt: at(1_000) })])).toEqual(["duplicate"]);
    expect(await inbox.receive(message("same"))).toBe("duplicate");
    expect(await inbox.receive(message("same", { payload: "newer" }))).toBe("duplicate");
    expect(await stateRows()).toBe(2);
    now = start + 1_000;
    const [same, ...others] = await inbox.claim({ owner });
    expect(same).toMatchObject({ messageId: "same", payload: "newer", deliveries: 3, attempt: 0 });
    expect(others).toEqual([]);
    expect((await inbox.get(key("expiring")))!.state).toBe("Dead");
    now = start + 5_000;
    expect(await claimIds()).toEqual(["delayed"]);
  });

  it("IBX-032 many delayed messages are passed once, and the next idle claim writes nothing", async () => {
    await inbox.receive(message("first"));
    await inbox.enqueue(
      Array.from({ length: 1_000 }, (_, i) => message(`delayed ${i}`, { dueAt: at(60_000) })),
    );
    expect(await claimIds(1)).toEqual(["first"]);
    expect(await claimIds()).toEqual([]);
    expect(await cursor()).toBe(1_001);
    const changes = await value("select total_changes()");
    expect(await claimIds()).toEqual([]);
    expect(await value("select total_changes()")).toBe(changes);
    await inbox.receive(message("last"));
    expect(await claimIds()).toEqual(["last"]);
    await inbox.ack(owner, [key("first"), key("last")]);
    now = start + 60_000;
    expect(await claimIds(1_000)).toHaveLength(1_000);
  });

  it("IBX-003 an unclaimed message that is marked by hand is no longer claimed; only a Seen one becomes Processing", async () => {
    await inbox.enqueue([message("done"), message("dead"), message("processing")]);
    await inbox.markProcessed(key("done"));
    await inbox.markDead(key("dead"), "no");
    await inbox.markProcessing(key("processing"));
    expect(await inbox.alreadyProcessed(key("done"))).toBe(true);
    expect(await inbox.alreadyProcessed(key("processing"))).toBe(false);
    expect(await inbox.get(key("dead"))).toMatchObject({ state: "Dead", lastError: "no", attempt: 0 });
    expect(await claimIds()).toEqual(["processing"]);
    await inbox.replay([key("dead")]);
    expect(await claimIds()).toEqual(["dead"]);
  });

  it("ADD-02 stats, list, get and the view know unclaimed messages", async () => {
    await inbox.enqueue([message("1"), message("2"), message("3"), message("4", { dueAt: at(60_000) })]);
    await claimIds(1);
    now = start + 5_000;
    expect(await inbox.stats()).toMatchObject({
      counts: { Seen: 0, Processing: 4, Done: 0, Dead: 0 },
      due: 2,
      controlled: 0,
      oldestDueAgeMs: 5_000,
      expired: 0,
    });
    const listIds = async (filter: Parameters<Inbox["list"]>[0]) =>
      idsOf((await inbox.list(filter)).messages);
    expect(await listIds({})).toEqual(["1", "2", "3", "4"]);
    expect(await listIds({ state: "Processing", limit: 3 })).toEqual(["1", "2", "3"]);
    expect(await listIds({ after: 2 })).toEqual(["3", "4"]);
    expect(await listIds({ state: "Done" })).toEqual([]);
    expect(await listIds({ error: "x" })).toEqual([]);
    expect(await inbox.get(key("2"))).toMatchObject({
      state: "Processing",
      attempt: 0,
      nextAttemptAt: at(0),
      lockedUntil: null,
      owner: null,
      crashes: 0,
    });
    expect(await value(`select group_concat(Status || Attempt) from "InboxMessages"`)).toBe(
      "running0,waiting0,waiting0,waiting0",
    );
  });

  it("IBX-102 unclaimed messages are claimed whole or not at all", async () => {
    await inbox.enqueue([message("1"), message("2"), message("3")]);
    const run = (sql: string) => db.driver.query({ name: "raw", text: sql }, {});
    await run(
      `create trigger forbid before insert on "InboxState" when new.seq = 3 begin select raise(abort, 'no'); end`,
    );
    await expect(inbox.claim({ owner })).rejects.toThrow("no");
    expect([await stateRows(), await cursor()]).toEqual([0, 0]);
    await run("drop trigger forbid");
    expect(await claimIds()).toEqual(["1", "2", "3"]);
  });

  it("IBX-033 no settlement changes an unclaimed message", async () => {
    await inbox.receive(message("1"));
    for (const settled of [
      await inbox.ack(owner, [key("1")]),
      await inbox.abandon(owner, [key("1")]),
      await inbox.fail(owner, [key("1")], "no"),
      await inbox.release(owner, [key("1")]),
      await inbox.renew(owner, [key("1")], 1_000),
      await inbox.replay([key("1")]),
    ]) {
      expect(settled).toMatchObject({ changed: [], lost: [key("1")] });
    }
    expect(await claimIds()).toEqual(["1"]);
  });

  it("IBX-033 an ack with one message that is no longer held settles the others", async () => {
    await inbox.enqueue([message("1"), message("2"), message("3")]);
    const claimed = await inbox.claim({ owner });
    await inbox.release(owner, [claimed[1]!]);
    const { changed, lost } = await inbox.ack(owner, claimed);
    expect(changed.map((one) => one.messageId)).toEqual(["1", "3"]);
    expect(lost.map((one) => one.messageId)).toEqual(["2"]);
    expect((await inbox.stats()).counts).toMatchObject({ Processing: 1, Done: 2 });
  });

  it("MID-10 a purge takes no number back: what comes after it is numbered onwards and claimed", async () => {
    await inbox.enqueue([message("1"), message("2")]);
    await inbox.ack(owner, await inbox.claim({ owner }));
    now += 60_000;
    expect((await inbox.purgeDone({ retentionMs: 1 })).purged).toBe(2);
    await inbox.receive(message("3"));
    await inbox.enqueue([message("4"), message("5")]);
    expect((await inbox.claim({ owner })).map((one) => [one.messageId, one.seq])).toEqual([
      ["3", 3],
      ["4", 4],
      ["5", 5],
    ]);
  });

  describe("in a batch that was unclaimed", () => {
    beforeEach(() => inbox.enqueue(["1", "2", "3", "4"].map((id) => message(id))));

    it("IBX-031 every message is done when all of it is acknowledged", async () => {
      const claimed = await claim();
      expect(await claim(other)).toEqual([]);
      expect((await inbox.ack(owner, claimed)).changed).toEqual(claimed);
      expect((await inbox.stats()).counts).toEqual({ Seen: 0, Processing: 0, Done: 4, Dead: 0 });
      expect(await inbox.get(key("3"))).toMatchObject({ state: "Done", owner: null, processedAt: at(0) });
      expect((await inbox.ack(owner, claimed)).lost).toHaveLength(4);
    });

    it("IBX-033 two batches of one owner are acknowledged in any order or as one", async () => {
      const [first, second] = [await claim(owner, 2), await claim(owner, 2)];
      expect((await inbox.ack(owner, second)).changed).toHaveLength(2);
      await inbox.enqueue([message("5"), message("6")]);
      const third = await claim(owner, 2);
      expect((await inbox.ack(owner, [...third, ...first])).changed).toHaveLength(4);
      expect((await inbox.stats()).counts).toMatchObject({ Processing: 0, Done: 6 });
    });

    it("IBX-033 a part is settled each way, and the others stay held", async () => {
      const [one, two, three, four] = await claim();
      expect((await inbox.ack(owner, [two!])).changed).toEqual([two]);
      expect((await inbox.abandon(owner, [one!], { delayMs: 500 })).changed).toEqual([one]);
      expect((await inbox.fail(owner, [three!], "no")).changed).toEqual([three]);
      expect(await claim(other)).toEqual([]);
      expect((await inbox.release(owner, [four!])).changed).toEqual([four]);
      expect(idsOf(await claim(other))).toEqual(["4"]);
      now = start + 500;
      expect(idsOf(await claim(other))).toEqual(["1"]);
      expect(await inbox.get(key("1"))).toMatchObject({ attempt: 1, owner: other });
      expect((await inbox.stats()).counts).toEqual({ Seen: 0, Processing: 2, Done: 1, Dead: 1 });
    });

    it("IBX-034 a foreign owner settles nothing", async () => {
      const claimed = await claim();
      for (const settled of [
        await inbox.ack(other, claimed),
        await inbox.abandon(other, claimed),
        await inbox.fail(other, claimed, "no"),
        await inbox.release(other, claimed),
        await inbox.renew(other, claimed, 60_000),
      ])
        expect(settled).toMatchObject({ changed: [] });
      expect((await inbox.ack(owner, claimed)).changed).toHaveLength(4);
    });

    it("ADD-11 after the lease has expired, its messages are claimed again, an attempt later", async () => {
      await claim();
      now = start + 60_000;
      expect(idsOf(await claim(other, 3))).toEqual(["1", "2", "3"]);
      expect(await inbox.get(key("1"))).toMatchObject({ attempt: 1, crashes: 1, owner: other });
      expect(await inbox.get(key("4"))).toMatchObject({ attempt: 0, owner });
      now = start + 120_000; // the second crash of three, and the first of the last
      expect(idsOf(await claim())).toEqual(["1"]);
      expect(idsOf(await claim())).toEqual(["2"]);
    });

    it("IBX-068 OBX-049 the reaper finds them at the end of the lease, and the renewed part not before its own", async () => {
      const claimed = await claim();
      await inbox.renew(owner, claimed.slice(0, 1), 60_000);
      now = start + 10_001;
      expect(await inbox.reapExpired()).toMatchObject({ reaped: 3, dead: 0 });
      expect(await inbox.get(key("1"))).toMatchObject({ attempt: 0, owner, lockedUntil: at(60_000) });
      expect(await inbox.get(key("2"))).toMatchObject({ attempt: 1, owner: null, lockedUntil: null });
      expect((await inbox.ack(owner, claimed)).changed).toEqual(claimed.slice(0, 1));
    });

    it("IBX-003 a message that is marked by hand is no longer its owner's", async () => {
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

    it("IBX-029 a redelivery of a leased message does not make it claimable", async () => {
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

    it("ADD-02 stats, list, get and the view know the owner of a leased message", async () => {
      await claim(owner, 3);
      const held = { state: "Processing", owner, lockedUntil: at(10_000), attempt: 0, crashes: 0 };
      expect(await inbox.get(key("2"))).toMatchObject(held);
      expect((await inbox.list({ state: "Processing", limit: 2 })).messages).toMatchObject([held, held]);
      expect(idsOf((await inbox.list({ after: 2 })).messages)).toEqual(["3", "4"]);
      expect(idsOf((await inbox.list({ state: "Done" })).messages)).toEqual([]);
      now = start + 1_000;
      expect(await inbox.stats()).toMatchObject({
        counts: { Seen: 0, Processing: 4, Done: 0, Dead: 0 },
        due: 1,
        controlled: 0,
        oldestDueAgeMs: 1_000,
        expired: 0,
      });
      now = start + 60_000;
      expect((await inbox.stats()).due).toBe(4);
      expect(await value(`select count(*) from "InboxMessages" where OwnerToken = '${owner}'`)).toBe(3);
      expect(await value(`select count(*) from "InboxMessages"`)).toBe(4);
    });

    it("ADD-04 an acknowledgement in a transaction that is rolled back leaves the lease as it was", async () => {
      const claimed = await claim();
      const failing = inbox.transaction(async (tx) => {
        await inbox.ack(owner, [claimed[0]!], { tx });
        throw new Error("handler failed");
      });
      await expect(failing).rejects.toThrow("handler failed");
      expect((await inbox.stats()).counts).toMatchObject({ Processing: 4, Done: 0 });
      await inbox.transaction((tx) => inbox.ack(owner, [claimed[0]!], { tx }));
      expect((await inbox.stats()).counts).toMatchObject({ Processing: 3, Done: 1 });
    });

    it("IBX-034 a leased message that is deleted by hand leaves nothing behind, and the others to their owner", async () => {
      const claimed = await claim();
      await value(`delete from "Inbox" where message_id = '2' returning seq`);
      expect(await stateRows()).toBe(3);
      expect((await inbox.stats()).counts).toEqual({ Seen: 0, Processing: 3, Done: 0, Dead: 0 });
      const { changed, lost } = await inbox.ack(owner, claimed);
      expect([idsOf(changed), idsOf(lost)]).toEqual([["1", "3", "4"], ["2"]]);
      await inbox.receive(message("2"));
      expect((await inbox.stats()).counts).toMatchObject({ Processing: 1, Done: 3 });
      await claim();
      await value(`delete from "Inbox" where message_id = '2' returning seq`);
      expect(await stateRows()).toBe(3);
    });
  });
});
