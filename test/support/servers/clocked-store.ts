import type { LeasingInboxStore } from "../../../src/service/inbox-store.js";
import { testClock } from "../../../src/testing/harness.js";
import type { TestLeasingStore } from "../../../src/testing/inbox-store/harness.js";

/** A store of its own for the contract suite, on a clock that the tests advance. */
export function clockedStore(
  open: (clock: () => Date) => LeasingInboxStore,
  closeServer: () => Promise<unknown>,
): TestLeasingStore {
  const clock = testClock();
  const store = open(clock);
  const others: LeasingInboxStore[] = [];
  return {
    store,
    clock,
    shortLeaseMs: 30_000,
    expireShortLeases: async () => clock.advance(30_000),
    async reopen() {
      if (others.length === 0) others.push(open(clock));
      return others[0]!;
    },
    async close() {
      for (const one of [store, ...others]) await one.close();
      await closeServer();
    },
  };
}
