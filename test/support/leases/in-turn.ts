import type { LeasingInboxStore } from "../../../src/service/inbox-store.js";

/** Stores of the same keys as one: each call goes to the next of them. */
export function inTurn(stores: readonly LeasingInboxStore[]): LeasingInboxStore {
  let calls = 0;
  const next = (): LeasingInboxStore => stores[calls++ % stores.length]!;
  return {
    tryBegin: (...args) => next().tryBegin(...args),
    renew: (...args) => next().renew(...args),
    finish: (...args) => next().finish(...args),
    release: (...args) => next().release(...args),
    isProcessed: (...args) => next().isProcessed(...args),
    markProcessed: (...args) => next().markProcessed(...args),
    inspect: (...args) => next().inspect(...args),
    close: async () => void (await Promise.all(stores.map((store) => store.close()))),
  };
}
