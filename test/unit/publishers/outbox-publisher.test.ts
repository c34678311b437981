import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { createOutbox, migrate, type OutboxMessage } from "../../../src/index.js";
import { functionPublisher, startOutboxPublisher } from "../../../src/publishers/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";

it("MID-09 several publishers never hold the same row at once, keep what failed, and stop cleanly on an abort", async () => {
  const db = openSqlite({ file: ":memory:" });
  await migrate(db);
  const outbox = createOutbox(db, { retry: { baseMs: 1, factor: 1 } });
  const stopping = new AbortController();
  const held = new Set<string>();
  const refusedOnce = new Set<string>();
  const published: string[] = [];
  const publish = async (message: Pick<OutboxMessage, "id" | "payload">) => {
    expect(held.has(message.id)).toBe(false);
    held.add(message.id);
    await sleep(1);
    held.delete(message.id);
    if (Number(message.payload) % 5 === 0 && !refusedOnce.has(message.id)) {
      refusedOnce.add(message.id);
      throw new Error("the broker says no");
    }
    published.push(message.payload);
  };
  const start = () =>
    startOutboxPublisher({
      outbox,
      publishers: { t: functionPublisher({ destination: "The broker", publish, breaker: false }) },
      pollMs: 5,
      batchSize: 7,
      signal: stopping.signal,
    });
  const workers = [start(), start(), start()];
  try {
    await outbox.enqueue(Array.from({ length: 100 }, (_, n) => ({ topic: "t", payload: `${n}` })));
    while ((await outbox.stats()).counts.Done < 100) await sleep(5);
    expect(published.map(Number).sort((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, n) => n));
    expect(refusedOnce.size).toBe(20);

    stopping.abort();
    await Promise.all(workers.map((worker) => worker.stop()));
    await outbox.enqueue({ topic: "t", payload: "late" });
    await sleep(30);
    expect((await outbox.stats()).counts).toMatchObject({ Ready: 1, InProgress: 0, Done: 100 });
  } finally {
    await Promise.all(workers.map((worker) => worker.stop()));
    await db.close();
  }
});
