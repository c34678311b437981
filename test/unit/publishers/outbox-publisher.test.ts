import { setTimeout as sleep, setImmediate as yieldToEventLoop } from "node:timers/promises";
import { afterEach, expect, it, vi } from "vitest";
import { createOutbox, migrate, type OutboxMessage } from "../../../src/index.js";
import { functionPublisher, startOutboxPublisher } from "../../../src/publishers/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { gate } from "../../contract/support/gate.js";
import { pass } from "../../support/scripted-run.js";

afterEach(() => {
  vi.useRealTimers();
});

it("MID-09 polls every 500 ms for 100 rows, and publishes 100 at once, by default", async () => {
  const db = openSqlite({ file: ":memory:" });
  await migrate(db);
  const outbox = createOutbox(db);
  await outbox.enqueue(Array.from({ length: 150 }, (_, n) => ({ topic: "t", payload: `${n}` })));
  const claimed: (number | undefined)[] = [];
  const polledAt: number[] = [];
  const isFull = gate();
  let running = 0;
  let mostRunning = 0;
  const publisher = startOutboxPublisher({
    outbox: {
      ...outbox,
      claim: (options) => {
        claimed.push(options.batchSize);
        polledAt.push(performance.now());
        return outbox.claim(options);
      },
    },
    publishers: {
      t: async () => {
        mostRunning = Math.max(mostRunning, ++running);
        if (running === 100) isFull.open();
        await isFull.promise;
        running--;
      },
    },
  });
  try {
    while ((await outbox.stats()).counts.Done < 150) await sleep(5);
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
    publisher.wake(); // the timer of the present wait is a real one
    await pass(2_600);
    expect(claimed[0]).toBe(100);
    expect(Math.max(...claimed.map(Number))).toBe(100);
    expect(mostRunning).toBe(100);
    const waits = polledAt.slice(1).map((at, index) => at - polledAt[index]!);
    expect(waits.slice(-4)).toEqual([500, 500, 500, 500]);
  } finally {
    await publisher.stop();
    await db.close();
  }
});

it("MID-09 several publishers never hold the same row at once, retry failed messages, and stop cleanly on an abort", async () => {
  const db = openSqlite({ file: ":memory:" });
  await migrate(db);
  const outbox = createOutbox(db, { retry: { baseMs: 1, factor: 1 } });
  const stopping = new AbortController();
  const held = new Set<string>();
  const heldTwice: string[] = [];
  const refusedOnce = new Set<string>();
  const published: string[] = [];
  const publish = async (message: Pick<OutboxMessage, "id" | "payload">) => {
    if (held.has(message.id)) heldTwice.push(message.id); // recorded, because an error thrown here would only be retried
    held.add(message.id);
    for (let ticks = 0; ticks < 5; ticks++) await yieldToEventLoop(); // so that another publisher could start it meanwhile
    held.delete(message.id);
    if (Number(message.payload) % 5 === 0 && !refusedOnce.has(message.id)) {
      refusedOnce.add(message.id);
      throw new Error("the broker says no");
    }
    published.push(message.payload);
  };
  const start = (signal: AbortSignal, to = publish) =>
    startOutboxPublisher({
      outbox,
      publishers: { t: functionPublisher({ destination: "The broker", publish: to, breaker: false }) },
      pollMs: 5,
      batchSize: 7,
      signal,
    });
  const workers = [stopping, stopping, stopping].map(({ signal }) => start(signal));
  try {
    await outbox.enqueue(Array.from({ length: 100 }, (_, n) => ({ topic: "t", payload: `${n}` })));
    while ((await outbox.stats()).counts.Done < 100) await sleep(5);
    expect(published.map(Number).sort((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, n) => n));
    expect(refusedOnce.size).toBe(20);
    expect(heldTwice).toEqual([]);

    stopping.abort();
    await Promise.all(workers.map((worker) => worker.stop()));
    expect((await outbox.stats()).counts).toMatchObject({ InProgress: 0 });
    const late: string[] = [];
    workers.push(start(new AbortController().signal, async ({ payload }) => void late.push(payload)));
    await outbox.enqueue(Array.from({ length: 50 }, (_, n) => ({ topic: "t", payload: `late ${n}` })));
    while ((await outbox.stats()).counts.Done < 150) await sleep(5);
    expect(late).toHaveLength(50); // the stopped publishers took none
    expect(published).toHaveLength(100);
  } finally {
    await Promise.all(workers.map((worker) => worker.stop()));
    await db.close();
  }
});
