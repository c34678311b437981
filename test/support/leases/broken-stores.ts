import type { LeasingInboxStore } from "../../../src/service/inbox-store.js";

/** Leases as a wrapper sees them come and go: the last lease of a key, and the key of every lease. */
interface SeenLeases {
  readonly store: LeasingInboxStore;
  readonly lastOf: ReadonlyMap<string, string>;
  readonly keyOf: ReadonlyMap<string, string>;
}

function seenLeases(store: LeasingInboxStore): SeenLeases {
  const lastOf = new Map<string, string>();
  const keyOf = new Map<string, string>();
  return {
    lastOf,
    keyOf,
    store: {
      ...store,
      async tryBegin(key, options) {
        const begun = await store.tryBegin(key, options);
        if (begun.status === "Acquired") {
          lastOf.set(key, begun.leaseId);
          keyOf.set(begun.leaseId, key);
        }
        return begun;
      },
    },
  };
}

/** Reads whether the key is free, and then takes it as if nobody could have been faster: two callers at once both win. */
export function readsThenWrites(real: LeasingInboxStore): LeasingInboxStore {
  const { store, lastOf } = seenLeases(real);
  return {
    ...store,
    async tryBegin(key, options) {
      const { status } = await store.inspect(key);
      await new Promise((resolve) => setImmediate(resolve)); // as a round trip to a server would
      const holder = lastOf.get(key);
      if (status !== "Leased" && holder !== undefined) await store.release(key, holder);
      return store.tryBegin(key, options);
    },
  };
}

/** Lets a holder finish after its lease, whoever has the key by then. */
export function finishesLate(real: LeasingInboxStore): LeasingInboxStore {
  const { store, keyOf } = seenLeases(real);
  return {
    ...store,
    async finish(key, leaseId, options) {
      const finished = await store.finish(key, leaseId, options);
      if (finished.status === "Processed" || keyOf.get(leaseId) !== key) return finished;
      await store.markProcessed(key);
      return { status: "Processed" };
    },
  };
}

/** Looks at the key alone: whoever says release, the key is free. */
export function releasesForAnybody(real: LeasingInboxStore): LeasingInboxStore {
  const { store, lastOf } = seenLeases(real);
  return {
    ...store,
    release: (key, leaseId, options) => store.release(key, lastOf.get(key) ?? leaseId, options),
  };
}

/** Says that a lease is renewed, and leaves its end as it was. */
export function forgetsRenewals(real: LeasingInboxStore): LeasingInboxStore {
  const { store, lastOf } = seenLeases(real);
  return {
    ...store,
    async renew(key, leaseId, leaseMs) {
      const { status } = await store.inspect(key);
      if (status !== "Leased" || lastOf.get(key) !== leaseId) return { status: "LeaseLost" };
      return { status: "Renewed", expiresAt: new Date(Date.now() + leaseMs) };
    },
  };
}
