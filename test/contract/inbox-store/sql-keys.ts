import { describe, expect, it } from "vitest";
import { newOwnerToken } from "../../../src/queue/leases.js";
import type { InboxKey } from "../../../src/queue/message.js";
import { skipUnless } from "../harness.js";
import { columnOf, rowCount, untilBlocked } from "../support/database.js";
import { brokenConnection, watched } from "../support/watched.js";
import { acquire } from "./leases.js";
import type { FreshStore, SqlStoreContext } from "./sql-support.js";

const day = 86_400_000;
const source = "inbox-service";
const keyOf = (messageId: string): InboxKey => ({ source, messageId });
const incoming = (messageId: string) => ({ ...keyOf(messageId), topic: "order.placed", payload: "{}" });

/** How keys and the messages of an inbox share a table. */
export function sqlKeyTests({ database, freshStore }: SqlStoreContext): void {
  /** Keys in each state that an inbox store knows. */
  const allStates = async (): Promise<FreshStore> => {
    const fresh = await freshStore();
    const { store, clock } = fresh;
    await acquire(store, "1-expired", { leaseMs: 1_000 });
    clock.advance(1_000);
    await acquire(store, "2-leased");
    await store.release("3-released", (await acquire(store, "3-released")).leaseId);
    await store.finish("4-finished", (await acquire(store, "4-finished")).leaseId);
    return fresh;
  };

  const everyRow = async ({ names }: FreshStore) => [
    await database().raw(`select * from ${names.message} order by seq`),
    await database().raw(`select * from ${names.state} order by seq`),
  ];

  describe("keys beside messages", () => {
    it("SVC-10 the dispatcher neither claims, reaps, expires, purges nor replays a key", async () => {
      const fresh = await allStates();
      const { inbox, clock } = fresh;
      const before = await everyRow(fresh);
      for (const _ of ["now", "much later"]) {
        expect(await inbox.claim({ owner: newOwnerToken() })).toEqual([]);
        expect(await inbox.reapExpired()).toEqual({ reaped: 0, dead: 0, more: false });
        const keys = ["1-expired", "2-leased", "3-released", "4-finished"].map(keyOf);
        expect((await inbox.replay(keys)).changed).toEqual([]);
        expect(await inbox.oldestDueAgeMs()).toBeNull();
        expect(await inbox.stats()).toMatchObject({ due: 0, oldestDueAgeMs: null, expired: 0 });
        expect(await everyRow(fresh)).toEqual(before);
        clock.advance(20 * day);
      }
      clock.advance(3_650 * day);
      expect(await inbox.purgeDone()).toMatchObject({ purged: 1 }); // the finished one
      const left = (await inbox.list()).messages.map(({ messageId }) => messageId);
      expect(left).toEqual(["1-expired", "2-leased", "3-released"]);
      await inbox.receive({ ...incoming("a message"), source: "stripe" });
      expect(await inbox.claim({ owner: newOwnerToken() })).toMatchObject([{ messageId: "a message" }]);
    });

    it("SVC-10 stats, list, get and the view show keys as Processing, Seen or Done", async () => {
      const { inbox, names, store } = await allStates();
      const { db, raw } = database();
      await inbox.alreadyProcessed(keyOf("5-seen"));
      expect((await inbox.stats()).counts).toEqual({ Seen: 2, Processing: 2, Done: 1, Dead: 0 });
      const listed = async (state: "Seen" | "Processing" | "Done" | "Dead") =>
        (await inbox.list({ state })).messages.map((message) => [message.messageId, message.state]);
      expect(await listed("Seen")).toEqual([
        ["3-released", "Seen"],
        ["5-seen", "Seen"],
      ]);
      expect(await listed("Processing")).toEqual([
        ["1-expired", "Processing"],
        ["2-leased", "Processing"],
      ]);
      expect(await listed("Done")).toEqual([["4-finished", "Done"]]);
      expect(await listed("Dead")).toEqual([]);
      const report = await store.inspect("2-leased");
      if (report.status !== "Leased") throw new Error(report.status);
      expect(await inbox.get(keyOf("2-leased"))).toMatchObject({
        state: "Processing",
        attempt: 1,
        lockedUntil: report.leaseUntil,
      });
      const id = columnOf(db, "MessageId");
      const shown = await raw(
        `select ${id} as id, state as s, status as phase from ${names.view} order by ${id}`,
      );
      expect(shown.map((row) => [row.id, row.s, row.phase])).toEqual([
        ["1-expired", "Processing", "running"],
        ["2-leased", "Processing", "running"],
        ["3-released", "Seen", "seen"],
        ["4-finished", "Done", "done"],
        ["5-seen", "Seen", "seen"],
      ]);
    });

    it("SVC-10 a delivery on a key that is leased is a duplicate, and its holder finishes", async () => {
      const { store, inbox, clock } = await freshStore();
      const { leaseId } = await acquire(store, "key", { owner: "worker" });
      const hash = Uint8Array.of(1, 2);
      expect(await inbox.receive({ ...incoming("key"), hash, dueAt: clock() })).toBe("duplicate");
      expect(await inbox.enqueue([incoming("key"), { ...incoming("key"), partitionKey: "p" }])).toEqual([
        "duplicate",
        "duplicate",
      ]);
      expect(await inbox.claim({ owner: newOwnerToken() })).toEqual([]);
      expect(await store.inspect("key")).toMatchObject({ status: "Leased", attempts: 1, owner: "worker" });
      expect(await store.finish("key", leaseId)).toEqual({ status: "Processed" });
      expect(await inbox.receive(incoming("key"))).toBe("done");
    });

    it.each(["receive", "enqueue", "enqueue with a partition key"])(
      "SVC-10 a delivery on a key that nobody holds is enqueued, so that nothing is lost: %s",
      async (way) => {
        const { store, inbox, clock } = await freshStore();
        const late = await acquire(store, "expired", { leaseMs: 1_000 });
        clock.advance(1_000);
        await store.release("released", (await acquire(store, "released")).leaseId);
        for (const key of ["expired", "released"]) {
          const message = incoming(key);
          const outcome =
            way === "receive"
              ? await inbox.receive(message)
              : await inbox.enqueue([way === "enqueue" ? message : { ...message, partitionKey: key }]);
          expect([outcome].flat()).toEqual(["enqueued"]);
          expect(await store.tryBegin(key)).toEqual({ status: "Busy", expiresAt: null });
        }
        expect(await store.finish("expired", late.leaseId)).toEqual({ status: "LeaseLost" });
        const owner = newOwnerToken();
        const claimed = await inbox.claim({ owner });
        expect(claimed.map(({ messageId, payload, attempt }) => [messageId, payload, attempt])).toEqual([
          ["expired", "{}", 0],
          ["released", "{}", 0],
        ]);
        await inbox.ack(owner, claimed);
        expect(await store.tryBegin("expired")).toEqual({ status: "Processed" });
      },
    );

    it("SVC-03 a message that a dispatcher handles is Busy until it is done; one that was only seen is free", async () => {
      const { store, inbox, clock } = await freshStore();
      const owner = newOwnerToken();
      await inbox.enqueue(["head", "blocked"].map((id) => ({ ...incoming(id), partitionKey: "p" })));
      await inbox.receive({ ...incoming("later"), dueAt: new Date(clock().getTime() + day) });
      const claimed = await inbox.claim({ owner, leaseMs: 60_000 });
      expect(claimed.map(({ messageId }) => messageId)).toEqual(["head"]);
      await inbox.receive(incoming("ready"));
      await inbox.alreadyProcessed(keyOf("marked"));
      await inbox.markProcessing(keyOf("marked"));
      await inbox.markDead(keyOf("dead"), "by hand");
      await inbox.alreadyProcessed(keyOf("seen"));

      expect(await store.tryBegin("head")).toEqual({ status: "Busy", expiresAt: claimed[0]!.lockedUntil });
      for (const key of ["blocked", "later", "ready", "marked", "dead"]) {
        expect(await store.tryBegin(key), key).toEqual({ status: "Busy", expiresAt: null });
        expect(await store.inspect(key), key).toMatchObject({ status: "Leased", leaseUntil: null });
      }
      expect(await store.inspect("seen")).toMatchObject({ status: "Free", attempts: 0 });
      expect(await store.tryBegin("seen")).toMatchObject({ status: "Acquired" });
      await inbox.ack(owner, claimed);
      expect(await store.tryBegin("head")).toEqual({ status: "Processed" });
    });

    it("SVC-04 an operator's markDead takes the key from its holder; markProcessing changes nothing", async () => {
      const { store, inbox } = await freshStore();
      const { leaseId } = await acquire(store, "key");
      expect(await inbox.alreadyProcessed(keyOf("key"))).toBe(false);
      await inbox.markProcessing(keyOf("key"));
      expect(await store.renew("key", leaseId, 60_000)).toMatchObject({ status: "Renewed" });
      await inbox.markDead(keyOf("key"), "poison");
      expect(await store.finish("key", leaseId)).toEqual({ status: "LeaseLost" });
      expect(await store.tryBegin("key")).toEqual({ status: "Busy", expiresAt: null });
      expect((await inbox.get(keyOf("key")))!.state).toBe("Dead");
    });

    it("SVC-01 isProcessed and inspect write nothing", async () => {
      const fresh = await allStates();
      const before = await everyRow(fresh);
      fresh.clock.advance(day);
      for (const key of ["1-expired", "2-leased", "3-released", "4-finished", "unknown"]) {
        expect(await fresh.store.isProcessed(key)).toBe(key === "4-finished");
        await fresh.store.inspect(key);
      }
      expect(await everyRow(fresh)).toEqual(before);
    });

    it("SVC-10 stores with other sources do not share keys", async () => {
      const { store, on } = await freshStore();
      const other = on(database().db, { source: "another service" });
      const { leaseId } = await acquire(store, "key");
      const theirs = await acquire(other, "key");
      expect(await other.finish("key", leaseId)).toEqual({ status: "LeaseLost" });
      expect(await other.finish("key", theirs.leaseId)).toEqual({ status: "Processed" });
      expect(await store.isProcessed("key")).toBe(false);
    });
  });

  describe("round trips and faults", () => {
    it("SVC-03 each call is one round trip; none is written where the key is refused", async () => {
      const { on, names } = await freshStore();
      const db = watched(database().db);
      const store = on(db);
      await expect(store.tryBegin("bad\u0007key")).rejects.toThrow(/key must not contain control characters/);
      await expect(store.markProcessed("k".repeat(256))).rejects.toThrow(/key has 256 characters/);
      expect(db.calls).toEqual([]);
      expect(await rowCount(database(), names.message)).toBe(0);
      const { leaseId } = await acquire(store, "key");
      await store.renew("key", leaseId, 60_000);
      await store.inspect("key");
      await store.finish("key", leaseId);
      await store.isProcessed("key");
      await store.tryBegin("key");
      await store.release("key", leaseId);
      await store.markProcessed("key");
      expect(db.calls).toHaveLength(8);
    });

    it("SVC-03 a tryBegin or finish whose answer was lost is repeated, and finds its own lease", async () => {
      const { on } = await freshStore();
      const { db } = database();
      const losing = () => on(watched(db, [{ loseAnswer: brokenConnection(db) }]));
      const { leaseId } = await acquire(losing(), "key");
      expect(await on(db).inspect("key")).toMatchObject({ status: "Leased", attempts: 1 });
      expect(await losing().renew("key", leaseId, 60_000)).toMatchObject({ status: "Renewed" });
      expect(await losing().finish("key", leaseId)).toEqual({ status: "Processed" });
    });

    it("SVC-03 tryBegin waits for a transaction that inserts the same key, and goes by how that ends", async (test) => {
      skipUnless(test, database(), "visibleLockWaits");
      const { store, inbox, names } = await freshStore();
      for (const [end, status] of [
        ["commit", "Processed"],
        ["rollback", "Acquired"],
      ] as const) {
        const other = await database().begin();
        await inbox.markProcessed(keyOf(end), { tx: other.tx });
        const begun = store.tryBegin(end);
        await untilBlocked(database(), begun, `${names.table}_try_begin`);
        await other[end]();
        expect(await begun, end).toMatchObject({ status });
      }
    });
  });
}
