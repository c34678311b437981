import { expect } from "vitest";
import * as z from "zod/mini";
import { omitUndefined } from "../../src/base/defined.js";
import type { SqlInboxStore } from "../../src/inbox-store/sql-inbox-store.js";
import { type Database, newOwnerToken, type Outbox, timeBudget } from "../../src/index.js";
import {
  command,
  createService,
  defineMessages,
  inProcessTransport,
  signal,
} from "../../src/messaging/index.js";
import { operatorsOf } from "../../src/operators/operators-of.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { testClock } from "../contract/harness.js";

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

const parcels = defineMessages({
  Send: command(z.object({ item: z.string() }), z.object({ parcel: z.string() })),
  Sent: signal(z.object({ item: z.string() })),
});

/** A service does all that it does in functions, as the user that `db` is opened with, and retries and resends, too. */
export async function expectService(db: Database, schema: string | undefined): Promise<void> {
  const others = openSqlite({ file: ":memory:" });
  const transport = inProcessTransport();
  let isAway = false;
  const clock = testClock();
  const common = { messages: parcels, clock, logger: false } as const;
  const service = createService({
    ...common,
    serviceId: "parcels",
    db,
    ...omitUndefined({ schema }),
    destinations: { shop: { transport, endpoints: ["Send"] } },
    receive: {
      Send: async ({ item }) => {
        await service.send.Sent("shop", { item });
        return { parcel: item };
      },
    },
    retry: { maxRetries: 0 },
    breaker: false,
  });
  const shop = createService({
    ...common,
    serviceId: "shop",
    db: others,
    destinations: { parcels: { transport, endpoints: ["Sent"] } },
    receive: {
      Sent() {
        if (isAway) throw new Error("away");
      },
    },
  });
  try {
    transport.serve("parcels", service.receiver);
    transport.serve("shop", shop.receiver);
    await shop.init();
    const messageId = await shop.send.Send("parcels", { item: "chair" });
    expect(await shop.dispatch(timeBudget(30_000))).toMatchObject({ acked: 1 });
    expect(await shop.resend([messageId])).toEqual({ resent: 1 });
    expect(await shop.dispatch(timeBudget(30_000))).toMatchObject({ acked: 1 });
    expect(await service.inboxStats()).toMatchObject({ size: 1, duplicates: 1 });
    isAway = true;
    await service.dispatch(timeBudget(30_000));
    const [failed] = (await service.list({ state: "Failed" })).messages;
    expect(failed).toMatchObject({ endpoint: "Sent" });
    expect(await service.retry(failed!.messageId)).toBe(true);
    isAway = false;
    await service.dispatch(timeBudget(30_000));
    expect((await service.outboxStats()).counts).toMatchObject({ Pending: 0, Sent: 2, Failed: 0 });
    expect(await service.get(failed!.messageId)).toMatchObject({ state: "Sent" });
    expect(await service.resend({ destination: "shop", since: new Date(0) })).toEqual({ resent: 2 });
    clock.advance(8 * 86_400_000);
    expect(await service.maintain(timeBudget(30_000))).toMatchObject({ inbox: { done: 1 } });
    expect((await service.outboxStats()).counts).toMatchObject({ Expired: 2 });
  } finally {
    await service.close();
    await shop.close();
    await others.close();
  }
}
