import { afterAll, beforeAll } from "vitest";
import type { InboxStore, LeasingInboxStore } from "../../../src/inbox-store/inbox-store.js";
import type { TestClock } from "../harness.js";

/** A store with no keys that others use. */
export interface TestInboxStore<Store extends InboxStore = InboxStore> {
  readonly store: Store;
  /** The same keys through another store, as another process would open it. The harness closes it. */
  reopen(): Promise<Store>;
  close(): Promise<void>;
}

export interface TestLeasingStore extends TestInboxStore<LeasingInboxStore> {
  /** The length of leases that a test lets expire. Short where `expireShortLeases` has to wait for it. */
  readonly shortLeaseMs: number;
  /** Resolves when every lease of `shortLeaseMs` that was acquired before has ended: by a clock, or by waiting. */
  expireShortLeases(): Promise<void>;
  /** The store's time. Where a store takes no clock, tests of exact times are skipped by name. */
  readonly clock?: TestClock;
}

export interface InboxStoreHarness<Opened extends TestInboxStore> {
  readonly name: string;
  open(): Promise<Opened>;
}

export interface StoreContext<Opened extends TestInboxStore> {
  /** What the harness opened for the tests of the surrounding `describe`. */
  readonly opened: () => Opened;
  /** A key that no other test has. */
  newKey(): string;
}

let keys = 0;

/** Call it inside a `describe`: it opens one store for the tests and closes it after them. */
export function createStoreContext<Opened extends TestInboxStore>(
  harness: InboxStoreHarness<Opened>,
): StoreContext<Opened> {
  let opened: Opened | undefined;
  beforeAll(async () => {
    opened = await harness.open();
  });
  afterAll(async () => {
    await opened?.close();
  });
  return { opened: () => opened!, newKey: () => `orders:billing:OrderPlaced:${++keys}` };
}
