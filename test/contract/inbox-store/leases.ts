import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { LeasingInboxStore } from "../../../src/inbox-store/inbox-store.js";
import { withLease } from "../../../src/inbox-store/with-lease.js";
import type { StoreContext, TestLeasingStore } from "./harness.js";

/** Leases the key, which must be available. */
export async function acquire(
  store: LeasingInboxStore,
  key: string,
  options: { readonly leaseMs?: number; readonly owner?: string } = {},
): Promise<{ readonly leaseId: string; readonly expiresAt: Date }> {
  const begun = await store.tryBegin(key, { leaseMs: 60_000, ...options });
  if (begun.status !== "Acquired") throw new Error(`${key} is ${begun.status}.`);
  return begun;
}

const lost = { status: "LeaseLost" };

/** Who holds a key, and who may finish, release and renew it. */
export function leaseTests({ opened, newKey }: StoreContext<TestLeasingStore>): void {
  /** A key whose lease has expired and that nobody else has acquired. */
  const expired = async (): Promise<{ readonly key: string; readonly leaseId: string }> => {
    const { store, shortLeaseMs, expireShortLeases } = opened();
    const key = newKey();
    const { leaseId } = await acquire(store, key, { leaseMs: shortLeaseMs });
    await expireShortLeases();
    return { key, leaseId };
  };

  describe("acquiring", () => {
    it("SVC-03 the first caller acquires a key, and the next gets Busy with the end of the lease", async () => {
      const { store, reopen } = opened();
      const key = newKey();
      const { leaseId, expiresAt } = await acquire(store, key);
      expect(leaseId).toMatch(/^\S+$/);
      for (const caller of [store, await reopen()]) {
        expect(await caller.tryBegin(key)).toEqual({ status: "Busy", expiresAt });
      }
      expect(await store.isProcessed(key)).toBe(false);
    });

    it("SVC-03 a key that is processed is Processed, however it became so", async () => {
      const { store } = opened();
      const [finished, marked] = [newKey(), newKey()];
      await store.finish(finished, (await acquire(store, finished)).leaseId);
      await store.markProcessed(marked);
      for (const key of [finished, marked]) {
        expect(await store.tryBegin(key)).toEqual({ status: "Processed" });
        expect(await store.isProcessed(key)).toBe(true);
      }
    });

    it("SVC-03 SVC-08 when the server's clock is set back the holder keeps its lease, and nobody else gets the key", async (test) => {
      const { store, clock } = opened();
      test.skip(clock === undefined, "needs a store that takes a clock");
      const key = newKey();
      const { leaseId } = await acquire(store, key);
      clock!.advance(-3_600_000);
      expect(await store.tryBegin(key)).toMatchObject({ status: "Busy" });
      expect(await store.inspect(key)).toMatchObject({ status: "Leased", attempts: 1 });
      expect(await store.renew(key, leaseId, 60_000)).toMatchObject({ status: "Renewed" });
      clock!.advance(3_600_000); // and right again: the lease counted from the wrong time
      expect(await store.finish(key, leaseId)).toEqual(lost);
      expect(await store.tryBegin(key)).toMatchObject({ status: "Acquired" });
    });

    it("SVC-03 a key whose lease expired is acquired under another lease id", async () => {
      const { store } = opened();
      const { key, leaseId } = await expired();
      const next = await acquire(store, key);
      expect(next.leaseId).not.toBe(leaseId);
      expect(await store.tryBegin(key)).toEqual({ status: "Busy", expiresAt: next.expiresAt });
    });

    it("SVC-02 SVC-09 a handler that hangs holds its key no longer than its time limit and its lease", async () => {
      const { store, reopen } = opened();
      const key = newKey();
      const limits = { leaseMs: 1_000, timeoutMs: 100 };
      const hung = withLease(store, key, () => new Promise(() => {}), limits);
      await expect(hung).rejects.toMatchObject({ code: "ONCEBOX_WORK_TIMED_OUT", timeoutMs: 100 });
      expect(await (await reopen()).tryBegin(key)).toMatchObject({ status: "Acquired" });
    });

    it("SVC-03 a call repeated with its own lease id gets the same lease, and Processed after the finish", async () => {
      const { store, reopen } = opened();
      const key = newKey();
      const leaseId = randomUUID();
      const begun = await store.tryBegin(key, { leaseId, leaseMs: 60_000 });
      expect(begun).toMatchObject({ status: "Acquired", leaseId });
      for (const caller of [store, await reopen()])
        expect(await caller.tryBegin(key, { leaseId: leaseId.toUpperCase(), leaseMs: 60_000 })).toEqual(
          begun,
        );
      expect(await store.tryBegin(key, { leaseId: randomUUID() })).toMatchObject({ status: "Busy" });
      expect(await store.inspect(key)).toMatchObject({ attempts: 1 });
      await store.finish(key, leaseId);
      expect(await store.tryBegin(key, { leaseId })).toEqual({ status: "Processed" });
      await expect(store.tryBegin(newKey(), { leaseId: "mine" })).rejects.toThrow(/\bleaseId\b/);
    });

    it("SVC-08 a lease is 30 s by default and ends at its expiresAt, to the millisecond", async (test) => {
      const { store, clock } = opened();
      test.skip(clock === undefined, "needs a store that takes a clock");
      const key = newKey();
      const begun = await store.tryBegin(key);
      const expiresAt = new Date(clock!().getTime() + 30_000);
      expect(begun).toMatchObject({ status: "Acquired", expiresAt });
      clock!.advance(29_999);
      expect(await store.tryBegin(key)).toEqual({ status: "Busy", expiresAt });
      expect(await store.inspect(key)).toMatchObject({ status: "Leased", leaseUntil: expiresAt });
      clock!.advance(1);
      expect(await store.inspect(key)).toMatchObject({ status: "Free", leaseUntil: null });
      expect(await store.tryBegin(key, { leaseMs: 120_000 })).toMatchObject({
        status: "Acquired",
        expiresAt: new Date(clock!().getTime() + 120_000),
      });
    });
  });

  describe("finishing", () => {
    it("SVC-04 the holder finishes its key, and may repeat that", async () => {
      const { store, reopen } = opened();
      const key = newKey();
      const { leaseId } = await acquire(store, key);
      for (const caller of [store, store, await reopen()]) {
        expect(await caller.finish(key, leaseId)).toEqual({ status: "Processed" });
      }
      expect(await store.tryBegin(key)).toEqual({ status: "Processed" });
      expect(await store.finish(key, leaseId)).toEqual({ status: "Processed" });
    });

    it("SVC-04 a finish after another caller acquired the key changes nothing", async () => {
      const { store } = opened();
      const { key, leaseId } = await expired();
      const next = await acquire(store, key);
      expect(await store.finish(key, leaseId)).toEqual(lost);
      expect(await store.isProcessed(key)).toBe(false);
      expect(await store.finish(key, next.leaseId)).toEqual({ status: "Processed" });
      expect(await store.finish(key, leaseId)).toEqual(lost);
    });

    it("SVC-04 a finish after the end of the lease changes nothing, even when nobody else acquired the key", async () => {
      const { store } = opened();
      const { key, leaseId } = await expired();
      expect(await store.finish(key, leaseId)).toEqual(lost);
      expect(await store.inspect(key)).toMatchObject({ status: "Free", attempts: 1 });
      expect(await store.finish(key, (await acquire(store, key)).leaseId)).toEqual({ status: "Processed" });
    });

    it("SVC-04 a lease id of another key, an unknown one or a malformed one does nothing", async () => {
      const { store } = opened();
      const [key, other] = [newKey(), newKey()];
      const mine = await acquire(store, key);
      const theirs = await acquire(store, other);
      const before = await store.inspect(key);
      for (const leaseId of [theirs.leaseId, "00000000-0000-4000-8000-000000000000", "not a lease", "*"]) {
        expect(await store.finish(key, leaseId)).toEqual(lost);
        expect(await store.release(key, leaseId)).toEqual(lost);
        expect(await store.renew(key, leaseId, 60_000)).toEqual(lost);
      }
      expect(await store.inspect(key)).toEqual(before);
      expect(await store.finish(key, mine.leaseId)).toEqual({ status: "Processed" });
      expect(await store.finish(key, theirs.leaseId)).toEqual(lost);
      expect(await store.finish(other, theirs.leaseId)).toEqual({ status: "Processed" });
    });

    it("SVC-04 a key that was never acquired stays unknown to finish, release and renew", async () => {
      const { store } = opened();
      const [key, other] = [newKey(), newKey()];
      const { leaseId } = await acquire(store, other);
      expect(await store.finish(key, leaseId)).toEqual(lost);
      expect(await store.release(key, leaseId)).toEqual(lost);
      expect(await store.renew(key, leaseId, 60_000)).toEqual(lost);
      expect(await store.inspect(key)).toEqual({ status: "Unknown" });
    });

    it("SVC-01 markProcessed takes the key from its holder", async () => {
      const { store } = opened();
      const key = newKey();
      const { leaseId } = await acquire(store, key);
      await store.markProcessed(key);
      expect(await store.isProcessed(key)).toBe(true);
      expect(await store.renew(key, leaseId, 60_000)).toEqual(lost);
      expect(await store.release(key, leaseId)).toEqual(lost);
      expect(await store.finish(key, leaseId)).toEqual(lost);
      expect(await store.tryBegin(key)).toEqual({ status: "Processed" });
    });
  });

  describe("releasing", () => {
    it("SVC-05 makes the key available to the next caller at once", async () => {
      const { store, reopen } = opened();
      const key = newKey();
      const { leaseId } = await acquire(store, key);
      expect(await store.release(key, leaseId)).toEqual({ status: "Released" });
      expect(await store.inspect(key)).toMatchObject({ status: "Free", leaseUntil: null });
      const next = await acquire(await reopen(), key);
      expect(next.leaseId).not.toBe(leaseId);
      expect(await store.release(key, leaseId)).toEqual(lost);
      expect(await store.finish(key, leaseId)).toEqual(lost);
      expect(await store.tryBegin(key)).toEqual({ status: "Busy", expiresAt: next.expiresAt });
    });

    it("SVC-05 changes nothing when the holder's lease has expired", async () => {
      const { store } = opened();
      const { key, leaseId } = await expired();
      expect(await store.release(key, leaseId)).toEqual(lost);
      const next = await acquire(store, key);
      expect(await store.release(key, leaseId)).toEqual(lost);
      expect(await store.finish(key, next.leaseId)).toEqual({ status: "Processed" });
      expect(await store.release(key, next.leaseId)).toEqual(lost);
      expect(await store.isProcessed(key)).toBe(true);
    });
  });

  describe("renewing", () => {
    it("SVC-08 a renewed lease outlives its first end", async () => {
      const { store, shortLeaseMs, expireShortLeases } = opened();
      const key = newKey();
      const { leaseId, expiresAt } = await acquire(store, key, { leaseMs: shortLeaseMs });
      const renewed = await store.renew(key, leaseId, 120_000);
      if (renewed.status !== "Renewed") throw new Error(renewed.status);
      expect(renewed.expiresAt.getTime()).toBeGreaterThan(expiresAt.getTime());
      await expireShortLeases();
      expect(await store.tryBegin(key)).toEqual({ status: "Busy", expiresAt: renewed.expiresAt });
      expect(await store.inspect(key)).toMatchObject({ attempts: 1, leaseUntil: renewed.expiresAt });
      expect(await store.finish(key, leaseId)).toEqual({ status: "Processed" });
    });

    it("SVC-08 a holder whose lease has expired cannot renew it, whether or not another caller acquired the key", async () => {
      const { store } = opened();
      const { key, leaseId } = await expired();
      expect(await store.renew(key, leaseId, 60_000)).toEqual(lost);
      expect(await store.inspect(key)).toMatchObject({ status: "Free" });
      const next = await acquire(store, key);
      expect(await store.renew(key, leaseId, 120_000)).toEqual(lost);
      expect(await store.inspect(key)).toMatchObject({ status: "Leased", leaseUntil: next.expiresAt });
    });

    it("SVC-08 a finished key is not renewed", async () => {
      const { store } = opened();
      const key = newKey();
      const { leaseId } = await acquire(store, key);
      await store.finish(key, leaseId);
      expect(await store.renew(key, leaseId, 60_000)).toEqual(lost);
    });
  });
}
