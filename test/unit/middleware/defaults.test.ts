import { expect, it } from "vitest";
import type { Inbox } from "../../../src/index.js";
import { createConsume } from "../../../src/middleware/consume.js";
import { startCleanup, type TriggerMessage, triggerMessage } from "../../../src/middleware/index.js";
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

it("MID-10 ADD-02 clean-up keeps dead messages, unless it has a retention for them", async () => {
  const asked: PurgeOptions[] = [];
  let runs = 0;
  const nothing = { purged: 0, more: false, cursor: null };
  const store = {
    id: "inbox",
    purgeDone: async () => nothing,
    purgeDead: async (options: PurgeOptions) => {
      asked.push(options);
      return nothing;
    },
    purgeOperations: async () => {
      runs++;
      return nothing;
    },
  };
  const until = async (options: { readonly deadRetentionMs?: number }) => {
    const before = runs;
    const cleanup = startCleanup({ stores: [store], ...options });
    while (runs === before) await new Promise(setImmediate);
    await cleanup.stop();
    return asked.map(({ retentionMs }) => retentionMs);
  };
  expect(await until({})).toEqual([]);
  expect(await until({ deadRetentionMs: 90 * 86_400_000 })).toEqual([90 * 86_400_000]);
  for (const deadRetentionMs of [90, 0, Number.NaN, 400 * 86_400_000])
    expect(() => startCleanup({ stores: [store], deadRetentionMs })).toThrow(
      /^startCleanup: deadRetentionMs must be a number of milliseconds from 86400000 \(1 day\)/,
    );
});

it("MID-11 a message is dead when its fifth delivery fails, by default", async () => {
  const deadLetters = { markDead: async () => {}, receive: async () => "enqueued" } as unknown as Inbox;
  const handle = () => {
    throw new Error("the business says no");
  };
  const consume = createConsume({ handle, deadLetters, subscriber: "s" }, "test");
  const message: Omit<TriggerMessage, "deliveries" | "data" | "type"> = {
    messageId: "m",
    topic: "t",
    payload: "",
    headers: null,
    correlationId: null,
    partitionKey: null,
  };
  expect(await consume(triggerMessage({ ...message, deliveries: 4 }))).toMatchObject({ end: "failed" });
  expect(await consume(triggerMessage({ ...message, deliveries: 5 }))).toEqual({ end: "dead" });
});
