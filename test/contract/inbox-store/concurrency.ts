import { describe, expect, it } from "vitest";
import type { LeasingInboxStore, TryBeginResult } from "../../../src/inbox-store/inbox-store.js";
import type { StoreContext, TestLeasingStore } from "./harness.js";
import { acquire } from "./leases.js";

const callers = 50;

/** Many calls at once on one key, through two stores. */
export function concurrencyTests({ opened, newKey }: StoreContext<TestLeasingStore>): void {
  const bothStores = async (): Promise<(index: number) => LeasingInboxStore> => {
    const { store, reopen } = opened();
    const another = await reopen();
    return (index) => (index % 2 === 0 ? store : another);
  };

  const beginAtOnce = async (key: string): Promise<readonly TryBeginResult[]> => {
    const storeOf = await bothStores();
    return Promise.all(
      Array.from({ length: callers }, (_, index) => storeOf(index).tryBegin(key, { leaseMs: 60_000 })),
    );
  };

  const count = (results: readonly { readonly status: string }[]): Readonly<Record<string, number>> => {
    const counts: Record<string, number> = {};
    for (const { status } of results) counts[status] = (counts[status] ?? 0) + 1;
    return counts;
  };

  describe("concurrency", () => {
    it(`SVC-03 of ${callers} concurrent callers exactly one acquires a new key, and the others get Busy`, async () => {
      const { store } = opened();
      const key = newKey();
      const results = await beginAtOnce(key);
      expect(count(results)).toEqual({ Acquired: 1, Busy: callers - 1 });
      expect(await store.inspect(key)).toMatchObject({ status: "Leased", attempts: 1 });
      const winner = results.find(({ status }) => status === "Acquired") as { readonly leaseId: string };
      expect(await store.finish(key, winner.leaseId)).toEqual({ status: "Processed" });
    });

    it(`SVC-03 of ${callers} concurrent callers exactly one acquires a key with an expired lease, and one a released key`, async () => {
      const { store, shortLeaseMs, expireShortLeases } = opened();
      const [expired, released] = [newKey(), newKey()];
      await store.release(released, (await acquire(store, released)).leaseId);
      await acquire(store, expired, { leaseMs: shortLeaseMs });
      await expireShortLeases();
      for (const key of [expired, released]) {
        expect(count(await beginAtOnce(key))).toEqual({ Acquired: 1, Busy: callers - 1 });
        expect(await store.inspect(key)).toMatchObject({ attempts: 2 });
      }
    });

    it("SVC-04 a finish that is sent several times at the same time is Processed each time", async () => {
      const storeOf = await bothStores();
      const key = newKey();
      const { leaseId } = await acquire(storeOf(0), key);
      const results = await Promise.all(
        Array.from({ length: 10 }, (_, index) => storeOf(index).finish(key, leaseId)),
      );
      expect(count(results)).toEqual({ Processed: 10 });
      expect(await storeOf(0).inspect(key)).toMatchObject({ status: "Processed", attempts: 1 });
    });

    it("SVC-05 of a concurrent finish and release exactly one succeeds", async () => {
      const storeOf = await bothStores();
      for (let round = 0; round < 5; round++) {
        const key = newKey();
        const { leaseId } = await acquire(storeOf(0), key);
        const [finished, released] = await Promise.all([
          storeOf(round).finish(key, leaseId),
          storeOf(round + 1).release(key, leaseId),
        ]);
        const done = finished.status === "Processed";
        expect(released.status).toBe(done ? "LeaseLost" : "Released");
        expect(await storeOf(0).isProcessed(key)).toBe(done);
      }
    });
  });
}
