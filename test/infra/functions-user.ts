import { expect } from "vitest";
import type { SqlInboxStore } from "../../src/inbox-store/sql-inbox-store.js";
import { newOwnerToken, type Outbox } from "../../src/index.js";
import { operatorsOf } from "../../src/operators/operators-of.js";

/** Calls everything that the inbox service and its clean-up call, as the user that the store is opened with. */
export async function expectInboxService(
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

/** The functions' user claims from an outbox that an operator pauses, resumes and limits. */
export async function expectControls(functions: Outbox, operator: Outbox): Promise<void> {
  const owner = newOwnerToken();
  const by = { by: "alice" };
  const topic = "controlled";
  for (const payload of ["1", "2", "3"]) await functions.enqueue({ topic, payload });
  await operatorsOf(operator).pause({ topic }, by);
  const others = await functions.claim({ owner });
  expect(others.filter((message) => message.topic === topic)).toEqual([]);
  expect(await operatorsOf(functions).controls()).toMatchObject([{ name: topic, waiting: 3 }]);
  await operatorsOf(operator).resume({ topic }, by);
  await operatorsOf(operator).limit({ topic, perSecond: 0.01 }, by);
  expect(await functions.claim({ owner })).toMatchObject([{ payload: "1" }]);
  expect(await operatorsOf(operator).controls()).toMatchObject([{ name: topic, waiting: 2 }]);
  expect(await operatorsOf(operator).limit({ topic, perSecond: null }, by)).toBeNull();
  expect(await functions.claim({ owner })).toHaveLength(2);
}
