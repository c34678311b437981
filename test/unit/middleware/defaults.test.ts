import { expect, it } from "vitest";
import type { Inbox } from "../../../src/index.js";
import { createConsume, startCleanup, type TriggerMessage } from "../../../src/middleware/index.js";
import type { PurgeOptions } from "../../../src/queue/work-store.js";

it("MID-10 clean-up asks every store to keep 7 days by default", async () => {
  const asked: PurgeOptions[] = [];
  const store = (id: string) => ({
    id,
    purgeDone: async (options: PurgeOptions) => {
      asked.push(options);
      return { purged: 0, more: false, cursor: null };
    },
  });
  const cleanup = startCleanup({ stores: [store("inbox"), store("outbox")] });
  while (asked.length < 2) await new Promise(setImmediate);
  await cleanup.stop();
  expect(asked.map(({ retentionMs }) => retentionMs)).toEqual([604_800_000, 604_800_000]);
});

it("MID-11 a message is dead when its fifth delivery fails, by default", async () => {
  const deadLetters = { markDead: async () => {}, receive: async () => "enqueued" } as unknown as Inbox;
  const handle = () => {
    throw new Error("the business says no");
  };
  const consume = createConsume({ handle, deadLetters, subscriber: "s" }, "test");
  const message: Omit<TriggerMessage, "deliveries"> = {
    messageId: "m",
    topic: "t",
    payload: "",
    headers: null,
    correlationId: null,
    partitionKey: null,
  };
  expect(await consume({ ...message, deliveries: 4 })).toMatchObject({ end: "failed" });
  expect(await consume({ ...message, deliveries: 5 })).toEqual({ end: "dead" });
});
