import { describe, expect, it } from "vitest";
import type { KeyReport } from "../../../src/inbox-store/inbox-store.js";
import type { StoreContext, TestLeasingStore } from "./harness.js";
import { acquire } from "./leases.js";
import { badKeys } from "./processed.js";

type SeenKey = Exclude<KeyReport, { readonly status: "Unknown" }>;

/** What operators read about a key, and which arguments are refused. */
export function inspectionTests({ opened, newKey }: StoreContext<TestLeasingStore>): void {
  describe("inspecting", () => {
    it("SVC-06 returns status, attempts, owner and end of the lease, from the first lease to the finish", async () => {
      const { store } = opened();
      const key = newKey();
      expect(await store.inspect(key)).toEqual({ status: "Unknown" });

      const first = await acquire(store, key, { owner: "worker 1 (Zürich)" });
      const leased = await store.inspect(key);
      expect(leased).toMatchObject({
        status: "Leased",
        attempts: 1,
        owner: "worker 1 (Zürich)",
        leaseUntil: first.expiresAt,
      });
      await store.release(key, first.leaseId);
      expect(await store.inspect(key)).toMatchObject({ status: "Free", attempts: 1, leaseUntil: null });

      const second = await acquire(store, key);
      expect(await store.inspect(key)).toMatchObject({ status: "Leased", attempts: 2, owner: null });
      await store.finish(key, second.leaseId);
      expect(await store.inspect(key)).toMatchObject({ status: "Processed", attempts: 2, leaseUntil: null });
    });

    it("SVC-06 a caller that gets Busy is no attempt, and its name is not stored", async () => {
      const { store } = opened();
      const key = newKey();
      await acquire(store, key, { owner: "holder" });
      await store.tryBegin(key, { owner: "another" });
      expect(await store.inspect(key)).toMatchObject({ attempts: 1, owner: "holder" });
    });

    it("SVC-06 a key that was only marked is Processed with no attempt", async () => {
      const { store } = opened();
      const key = newKey();
      await store.markProcessed(key);
      expect(await store.inspect(key)).toMatchObject({
        status: "Processed",
        attempts: 0,
        leaseUntil: null,
        owner: null,
      });
    });

    it("SVC-06 firstSeenAt stays; lastSeenAt is the last tryBegin, or a mark without a lease", async (test) => {
      const { store, clock } = opened();
      test.skip(clock === undefined, "needs a store that takes a clock");
      const key = newKey();
      const firstSeenAt = clock!();
      /** Makes the calls a second later each, and returns the times that are known afterwards. */
      const seenAfter = async (...calls: readonly (() => Promise<unknown>)[]) => {
        for (const call of calls) {
          clock!.advance(1_000);
          await call();
        }
        const { firstSeenAt: first, lastSeenAt: last } = (await store.inspect(key)) as SeenKey;
        return {
          first: first.getTime() - firstSeenAt.getTime(),
          last: last.getTime() - firstSeenAt.getTime(),
        };
      };
      const { leaseId } = await acquire(store, key);
      expect(await seenAfter()).toEqual({ first: 0, last: 0 });
      expect(await seenAfter(() => store.tryBegin(key))).toEqual({ first: 0, last: 1_000 });
      const unseen = [
        () => store.isProcessed(key),
        () => store.renew(key, leaseId, 60_000),
        () => store.release(key, leaseId),
      ];
      expect(await seenAfter(...unseen)).toEqual({ first: 0, last: 1_000 });
      const again = await acquire(store, key);
      expect(await seenAfter(() => store.finish(key, again.leaseId))).toEqual({ first: 0, last: 4_000 });
      expect(await seenAfter(() => store.tryBegin(key))).toEqual({ first: 0, last: 6_000 });
      expect(await seenAfter(() => store.markProcessed(key))).toEqual({ first: 0, last: 7_000 });
    });
  });

  describe("arguments", () => {
    it("SVC-03 every call refuses an invalid key by name", async () => {
      const { store } = opened();
      for (const bad of badKeys(newKey())) {
        const key = bad as string;
        const calls = [
          () => store.tryBegin(key),
          () => store.finish(key, "lease"),
          () => store.release(key, "lease"),
          () => store.renew(key, "lease", 60_000),
          () => store.inspect(key),
        ];
        for (const call of calls) {
          const refused = expect(call(), `${JSON.stringify(bad)}: ${call}`);
          await refused.rejects.toMatchObject({ code: "ONCEBOX_INVALID_ARGUMENT", message: /\bkey\b/ });
        }
      }
    });

    it("SVC-03 an invalid owner or lease is refused by name, and the key stays unknown", async () => {
      const { store } = opened();
      const key = newKey();
      for (const owner of ["", "x".repeat(101), "a\u0000b", "a\nb", 7 as unknown as string]) {
        await expect(store.tryBegin(key, { owner }), JSON.stringify(owner)).rejects.toThrow(/\bowner\b/);
      }
      for (const leaseMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, "60000" as unknown as number]) {
        await expect(store.tryBegin(key, { leaseMs }), String(leaseMs)).rejects.toThrow(/\blease/);
        await expect(store.renew(key, "lease", leaseMs), String(leaseMs)).rejects.toThrow(/\blease/);
      }
      for (const leaseId of ["", 7 as unknown as string, undefined as unknown as string]) {
        await expect(store.finish(key, leaseId)).rejects.toThrow(/\bleaseId\b/);
        await expect(store.release(key, leaseId)).rejects.toThrow(/\bleaseId\b/);
        await expect(store.renew(key, leaseId, 60_000)).rejects.toThrow(/\bleaseId\b/);
      }
      expect(await store.inspect(key)).toEqual({ status: "Unknown" });
      await acquire(store, key, { owner: "x".repeat(100) });
    });

    it("SVC-03 an aborted tryBegin is rejected with the signal's reason, and leases nothing", async () => {
      const { store } = opened();
      const key = newKey();
      const reason = new Error("the function's time is over");
      await expect(store.tryBegin(key, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
      expect(await store.inspect(key)).toEqual({ status: "Unknown" });
    });
  });
}
