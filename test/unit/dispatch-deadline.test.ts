import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  createDispatcher,
  createInbox,
  type Database,
  type DispatchResult,
  type Inbox,
  type InboxMessage,
  migrate,
  timeBudget,
} from "../../src/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

/** Time stands still until the test moves it; the database and the event loop are real. */
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const never = (): Promise<never> => new Promise(() => {});

interface Outcome extends DispatchResult {
  readonly spareMs: number;
}

describe("a run and its deadline, in simulated time", () => {
  let db: Database;
  let inbox: Inbox;
  let sent = 0;

  beforeEach(async () => {
    db = openSqlite({ file: ":memory:" });
    await migrate(db);
    inbox = createInbox(db);
    vi.useFakeTimers({
      toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "performance"],
    });
  });
  afterEach(async () => {
    vi.useRealTimers();
    await db.close();
  });

  const enqueue = (topics: readonly string[]) =>
    inbox.enqueue(topics.map((topic) => ({ source: "s", messageId: String(++sent), topic, payload: "{}" })));

  const passTimeUntil = async <T>(work: Promise<T>): Promise<T> => {
    let done = false;
    const watched = work.finally(() => {
      done = true;
    });
    while (!done) await vi.advanceTimersByTimeAsync(10);
    return watched;
  };

  /** A store whose every answer waits for this first. */
  const distant = (arrival: () => Promise<void>): Inbox => ({
    ...inbox,
    claim: (...args) => arrival().then(() => inbox.claim(...args)),
    ack: (...args) => arrival().then(() => inbox.ack(...args)),
    abandon: (...args) => arrival().then(() => inbox.abandon(...args)),
    release: (...args) => arrival().then(() => inbox.release(...args)),
  });

  const runWithin = async (
    dispatcher: ReturnType<typeof createDispatcher<InboxMessage>>,
    store: Inbox,
    budgetMs: number,
  ): Promise<Outcome> => {
    const budget = timeBudget(budgetMs);
    const run = dispatcher
      .run(store, budget)
      .then((result) => ({ ...result, spareMs: budget.remainingMs() }));
    return passTimeUntil(run);
  };

  it("FUN-03 returns before the deadline with everything settled, whatever the handlers do", async () => {
    const handlerMs = fc.oneof(fc.integer({ min: 0, max: 900 }), fc.constant(Number.POSITIVE_INFINITY));
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 300, max: 2_500 }),
        fc.array(handlerMs, { minLength: 1, maxLength: 8 }),
        fc.integer({ min: 0, max: 25 }),
        async (budgetMs, durations, answerMs) => {
          await enqueue(Array.from({ length: 60 }, () => "t"));
          let handled = 0;
          const dispatcher = createDispatcher<InboxMessage>({
            concurrency: 5,
            handlers: {
              // it ignores its signal
              t: () => {
                const ms = durations[handled++ % durations.length]!;
                return Number.isFinite(ms) ? sleep(ms) : never();
              },
            },
          });
          const outcome = await runWithin(
            dispatcher,
            distant(() => sleep(answerMs)),
            budgetMs,
          );
          expect(outcome.spareMs).toBeGreaterThan(0);
          expect(outcome.acked + outcome.abandoned + outcome.released).toBe(outcome.claimed);
          const { messages } = await inbox.list({ limit: 1_000 });
          expect(messages.filter((message) => message.owner !== null)).toEqual([]);
        },
      ),
      { numRuns: 20 },
    );
  });

  it("FUN-03 returns before the deadline when the database no longer answers", async () => {
    await enqueue(Array.from({ length: 20 }, () => "t"));
    for (const answers of [0, 1, 2, 5]) {
      let left = answers;
      const store = distant(() => (left-- > 0 ? sleep(5) : never()));
      const dispatcher = createDispatcher<InboxMessage>({ concurrency: 2, handlers: { t: () => sleep(50) } });
      const { spareMs } = await runWithin(dispatcher, store, 1_000);
      expect(spareMs).toBeGreaterThan(0);
    }
  });

  it("FUN-03 fills nine tenths of the usable time, small messages using the time that large ones leave", async () => {
    const needsMs: Readonly<Record<string, number>> = { tiny: 10, small: 60, large: 240, huge: 470 };
    const topics = Object.keys(needsMs);
    let handledMs = 0;
    const handle = async ({ topic }: InboxMessage): Promise<void> => {
      await sleep(needsMs[topic]!);
      handledMs += needsMs[topic]!;
    };
    const dispatcher = createDispatcher<InboxMessage>({
      concurrency: 4,
      handlers: Object.fromEntries(topics.map((topic) => [topic, handle])),
    });
    const store = distant(() => sleep(3));
    let usableMs = 0;
    for (const budgetMs of [2_000, 1_370, 2_910, 1_730]) {
      await enqueue(Array.from({ length: 120 }, (_, index) => topics[(index * 7 + (index >> 2)) % 4]!));
      const outcome = await runWithin(dispatcher, store, budgetMs);
      expect(outcome).toMatchObject({ stopped: "time", abandoned: 0 });
      usableMs += 4 * (budgetMs - 150);
    }
    expect(handledMs / usableMs).toBeGreaterThan(0.9);
  });
});
