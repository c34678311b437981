import { expect } from "vitest";
import type { SqlInboxStore } from "../../src/service/sql-inbox-store.js";

/** Calls everything that the inbox service and its clean-up call, as the user that the store is opened with. */
export async function liveAKeysLife(
  store: SqlInboxStore,
  clock: { advance(ms: number): void },
): Promise<void> {
  const acquired = async (key: string) => {
    const begun = await store.tryBegin(key, { owner: "consumer-1" });
    if (begun.status !== "Acquired") throw new Error(`${key} is ${begun.status}`);
    return begun.leaseId;
  };
  const first = await acquired("key");
  expect(await store.tryBegin("key")).toMatchObject({ status: "Busy" });
  expect(await store.renew("key", first, 60_000)).toMatchObject({ status: "Renewed" });
  expect(await store.inspect("key")).toMatchObject({ status: "Leased", owner: "consumer-1" });
  expect(await store.release("key", first)).toEqual({ status: "Released" });
  expect(await store.finish("key", await acquired("key"))).toEqual({ status: "Processed" });
  expect(await store.isProcessed("key")).toBe(true);
  await store.markProcessed("marked");
  await acquired("abandoned");
  clock.advance(31 * 86_400_000);
  expect(await store.purge()).toMatchObject({ purged: 3 });
}
