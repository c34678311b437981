import { setTimeout as sleep } from "node:timers/promises";
import type { LeasingInboxStore } from "../../../src/inbox-store/inbox-store.js";
import { testClock } from "../../contract/harness.js";
import type { TestLeasingStore } from "../../contract/inbox-store/harness.js";

/** A store for the contract suite, on a clock that the tests advance. */
export function clockedStore(
  open: (clock: () => Date) => LeasingInboxStore,
  closeServer: () => Promise<unknown>,
): TestLeasingStore {
  const clock = testClock();
  return {
    ...twoStores(() => open(clock), closeServer),
    clock,
    shortLeaseMs: 30_000,
    expireShortLeases: async () => clock.advance(30_000),
  };
}

/** A store for the contract suite, on the server's own time: its leases end by waiting. */
export function unclockedStore(
  open: () => LeasingInboxStore,
  closeServer: () => Promise<unknown>,
): TestLeasingStore {
  const shortLeaseMs = 300; // long enough for a renewal on a busy machine
  return {
    ...twoStores(open, closeServer),
    shortLeaseMs,
    expireShortLeases: () => sleep(shortLeaseMs + 20),
  };
}

function twoStores(open: () => LeasingInboxStore, closeServer: () => Promise<unknown>) {
  const [store, another] = [open(), open()];
  return {
    store,
    reopen: async () => another,
    async close() {
      await store.close();
      await another.close();
      await closeServer();
    },
  };
}
