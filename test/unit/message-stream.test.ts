import { describe, expect, it, vi } from "vitest";
import { createOutbox, migrate, type StreamedMessage } from "../../src/index.js";
import type { Database } from "../../src/sql/dialect.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { type LogLine, recordingLogger } from "../contract/support/recording-logger.js";
import { deadlock } from "../contract/support/watched.js";
import { never, pass, quiet, useSimulatedTime } from "../support/scripted-run.js";

type Before = (statement: string) => Promise<void> | undefined;

/** An outbox with one message, whose statements wait for, or fail with, what `before` does. */
async function outboxWith(count = 1) {
  const db = openSqlite({ file: ":memory:" });
  await migrate(db);
  const sent: { readonly statement: string; readonly at: number }[] = [];
  let before: Before = () => undefined;
  const slow: Database = {
    ...db,
    driver: {
      ...db.driver,
      async query(statement, params, options) {
        sent.push({ statement: statement.name, at: performance.now() });
        await before(statement.name);
        return db.driver.query(statement, params, options);
      },
    },
  };
  const log: LogLine[] = [];
  const outbox = createOutbox(slow, { logger: recordingLogger(log) });
  for (let index = 0; index < count; index++) await outbox.enqueue({ topic: "t", payload: `${index}` });
  return {
    db,
    outbox,
    log,
    timesOf: (name: string) => sent.filter(({ statement }) => statement === name).map(({ at }) => at),
    before(act: Before) {
      before = act;
    },
  };
}

async function first(messages: AsyncIterator<StreamedMessage>): Promise<StreamedMessage> {
  const coming = messages.next();
  await quiet(40);
  return (await coming).value as StreamedMessage;
}

const only =
  (name: string, act: () => Promise<void>): Before =>
  (statement) =>
    statement === name ? act() : undefined;

describe("the time of a loop over messages", () => {
  useSimulatedTime();

  it("MID-13 polls an empty outbox every 500 ms by default", async () => {
    const { outbox, timesOf } = await outboxWith(0);
    const messages = outbox.messages();
    void messages.next();
    await vi.dynamicImportSettled();
    await pass(3_200);
    const times = timesOf("claim");
    expect(times.slice(1).map((at, index) => Math.round((at - times[index]!) / 100))).toEqual(
      Array.from({ length: 6 }, () => 5),
    );
    await messages.return?.();
  });

  it("MID-13 asks a database that fails less and less often, every 5 s in the end", async () => {
    vi.spyOn(Math, "random").mockReturnValue(0.5);
    const { db, outbox, log, before } = await outboxWith();
    before(only("claim", () => Promise.reject(deadlock(db))));
    const failedAt: number[] = [];
    const messages = outbox.messages();
    const coming = messages.next();
    await vi.dynamicImportSettled();
    for (let waited = 0; waited < 30_000; waited += 50) {
      await pass(50);
      const failed = log.filter(({ message }) => message === "claim failed").length;
      if (failed > failedAt.length) failedAt.push(performance.now());
    }
    const retriesMs = 20 + 80 + 250 + 800; // the store's own retries of one claim
    const waits = failedAt.slice(1).map((at, index) => at - failedAt[index]! - retriesMs);
    expect(waits.slice(0, 5).map((ms) => Math.round(ms / 500) * 500)).toEqual([
      500, 1_000, 2_000, 4_000, 5_000,
    ]);
    before(() => undefined);
    await pass(6_000);
    expect((await coming).value.payload).toBe("0");
    await messages.return?.();
    vi.restoreAllMocks();
  });

  it("MID-13 an acknowledgement is tried again while the database fails", async () => {
    const { outbox, before } = await outboxWith();
    const messages = outbox.messages();
    await vi.dynamicImportSettled();
    const message = await first(messages);
    let failures = 5;
    before(only("ack", () => (failures-- > 0 ? Promise.reject(new Error("no")) : Promise.resolve())));
    const acked = message.ack();
    await pass(5_000);
    expect(await acked).toBe(true);
    await messages.return?.();
    expect(await outbox.get(message)).toMatchObject({ state: "Done" });
  });

  it("MID-13 an acknowledgement that cannot be stored until the lease is over is false", async () => {
    const { outbox, before } = await outboxWith();
    const messages = outbox.messages();
    const message = await first(messages);
    before(only("ack", () => Promise.reject(new Error("no"))));
    const acked = message.ack();
    await pass(35_000);
    expect(await acked).toBe(false);
    await messages.return?.();
  });

  it("MID-13 leaves a database that does not respond after 10 s, and says so", async () => {
    const { outbox, before, log } = await outboxWith();
    const messages = outbox.messages();
    const message = await first(messages);
    before(() => never());
    let hasEnded = false;
    const ending = messages.return?.().then(() => {
      hasEnded = true;
    });
    await pass(9_900);
    expect(hasEnded).toBe(false);
    await pass(200);
    expect(hasEnded).toBe(true);
    await ending;
    expect(log.map((line) => line.message)).toContain(
      "the loop over messages ended before everything was settled",
    );
    expect(await message.ack()).toBe(false);
  });
});
