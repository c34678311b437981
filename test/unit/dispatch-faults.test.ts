import { afterEach, describe, expect, it, vi } from "vitest";
import {
  createDispatcher,
  createInbox,
  createWorker,
  type Inbox,
  type InboxMessage,
  migrate,
  newOwnerToken,
  type SqlExecutor,
  timeBudget,
} from "../../src/index.js";
import { purgeWithin, reapWithin } from "../../src/queue/maintenance.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { gate } from "../contract/support/gate.js";

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  vi.useRealTimers();
  await Promise.all(open.splice(0).map((db) => db.close()));
});

async function inboxWith(count: number, now?: () => Date): Promise<Inbox> {
  const db = openSqlite({ file: ":memory:" });
  open.push(db);
  await migrate(db, { outbox: false });
  const inbox = createInbox(db, now === undefined ? {} : { clock: now });
  const message = (_: unknown, i: number) => ({ source: "s", messageId: String(i), topic: "t", payload: "" });
  await inbox.enqueue(Array.from({ length: count }, message));
  return inbox;
}

const never = () => new Promise<never>(() => {});

/** From here on, time stands still until the test passes it; the database and the event loop are real. */
const simulateTime = () =>
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "performance"] });

async function passTimeUntil<T>(work: Promise<T>): Promise<T> {
  let isDone = false;
  const watched = work.finally(() => {
    isDone = true;
  });
  watched.catch(() => {}); // the caller awaits it
  while (!isDone) await vi.advanceTimersByTimeAsync(10);
  return watched;
}

describe("a dispatcher whose database misbehaves", () => {
  it("FUN-03 ends in time when settlements are never answered and a crashed message waits", async () => {
    let now = Date.UTC(2030, 0, 1);
    const inbox = await inboxWith(2, () => new Date(now));
    // one is lost by its worker; the other is fresh
    await inbox.claim({ owner: newOwnerToken(), batchSize: 1, leaseMs: 1_000 });
    now += 60_000;
    const store = { ...inbox, ack: never, release: never };
    simulateTime();
    const budget = timeBudget(1_000);
    const dispatcher = createDispatcher<InboxMessage>({ handlers: { t: () => {} }, reserveMs: 200 });
    await passTimeUntil(dispatcher.run(store, budget));
    expect(budget.remainingMs()).toBeGreaterThan(0);
  });

  it("MID-09 a worker stops after its drain time when settlements are never answered", async () => {
    const inbox = await inboxWith(1);
    const handled = gate();
    simulateTime();
    const store = { ...inbox, ack: never };
    const worker = createWorker({ store, handlers: { t: () => handled.open() }, drainMs: 300 });
    await handled.promise;
    const stoppedAt = performance.now();
    await passTimeUntil(worker.stop());
    expect(performance.now() - stoppedAt).toBeLessThanOrEqual(300);
  });

  it("ADD-04 ends with the fault when no transaction can be opened, and releases its messages without counting an attempt", async () => {
    const inbox = await inboxWith(200);
    let tries = 0;
    const store = {
      ...inbox,
      transaction: async () => {
        tries++;
        throw new Error("too many connections");
      },
    };
    const dispatcher = createDispatcher<InboxMessage, SqlExecutor>({
      handlers: { t: { transactional: true, handle: () => {} } },
    });
    await expect(dispatcher.run(store, timeBudget(60_000))).rejects.toThrow("too many connections");
    expect(tries).toBeLessThanOrEqual(10); // as many as run at once
    expect(
      (await inbox.list()).messages.every(
        ({ attempt, lockedUntil }) => attempt === 0 && lockedUntil === null,
      ),
    ).toBe(true);
  });

  it("IBX-078 messages whose leases end while they are handled and settled are handled once, and none is released", async () => {
    let now = Date.UTC(2030, 0, 1);
    const inbox = await inboxWith(2, () => new Date(now));
    const released: string[] = [];
    const store: Inbox = {
      ...inbox,
      renew: async () => ({ changed: [], lost: [], dead: [] }), // never reaches the database
      release(owner, messages, call) {
        released.push(...messages.map((message) => message.messageId));
        return inbox.release(owner, messages, call);
      },
    };
    const started: string[] = [];
    const dispatcher = createDispatcher<InboxMessage>({
      concurrency: 1,
      leaseMs: 1_000,
      handlers: {
        async t({ messageId, crashes }) {
          started.push(`${messageId}${crashes > 0 ? "!" : ""}`);
          if (started.length === 1) {
            now += 120_000; // the machine slept: both leases are over
            await inbox.receive({ source: "s", messageId: "more", topic: "t", payload: "" });
          }
        },
      },
    });
    await dispatcher.run(store, timeBudget(60_000));
    // both were claimed again: the first while it waited to be settled, the other before it was handled
    expect(started).toEqual(["0", "1!", "more"]);
    expect(released).toEqual([]);
    expect((await inbox.stats()).counts).toMatchObject({ Done: 3, Processing: 0 });
  });

  it("ADD-04 a worker continues when a claim never returns", async () => {
    const inbox = await inboxWith(1);
    const handled = gate();
    const signals: (AbortSignal | undefined)[] = [];
    const claim: Inbox["claim"] = (options) => {
      signals.push(options.signal);
      return signals.length === 1 ? never() : inbox.claim(options);
    };
    const worker = createWorker({
      store: { ...inbox, claim },
      leaseMs: 300,
      settleTimeoutMs: 300,
      pollMs: 10,
      handlers: { t: () => handled.open() },
    });
    await handled.promise;
    expect(signals[0]?.aborted).toBe(true);
    await worker.stop();
  });

  it("IBX-072 a worker reaps again when a reap never returns", async () => {
    const inbox = await inboxWith(0);
    const signals: (AbortSignal | undefined)[] = [];
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const reapExpired: Inbox["reapExpired"] = ({ signal } = {}) => {
      signals.push(signal);
      return new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
    };
    const worker = createWorker({ store: { ...inbox, reapExpired }, handlers: {}, reapMs: 1_000 });
    await vi.advanceTimersByTimeAsync(61_000);
    vi.useRealTimers();
    expect(signals.map((signal) => signal?.aborted)).toEqual([true, false]);
    await worker.stop();
    expect(signals[1]?.aborted).toBe(true);
  });

  it("ADD-09 MID-09 a worker polls and stops when its source of wake-ups does not respond", async () => {
    const inbox = await inboxWith(1);
    const handled = gate();
    const worker = createWorker({ store: inbox, handlers: { t: () => handled.open() }, wakeUp: never });
    await handled.promise;
    await worker.stop();
    expect((await inbox.stats()).counts).toMatchObject({ Done: 1 });
  });

  it("FUN-04 reaping and clean-up end before the function does when the database does not respond", async () => {
    const inbox = await inboxWith(1);
    const silent = { ...inbox, reapExpired: never, purgeDone: never };
    simulateTime();
    for (const job of [reapWithin, purgeWithin]) {
      const budget = timeBudget(700);
      await expect(passTimeUntil(job(silent, budget))).rejects.toThrow(/took longer than \d+ ms/);
      expect(budget.remainingMs()).toBeGreaterThan(0);
    }
  });

  it("IBX-078 a handler whose transaction begins after the end of its lease is not called", async () => {
    const inbox = await inboxWith(1);
    let claimedAt = 0;
    const leaseMs = 500;
    const store: Inbox = {
      ...inbox,
      claim(options) {
        claimedAt = performance.now();
        return inbox.claim(options);
      },
      renew: () => Promise.reject(new Error("the database is away")),
      async transaction(work, call) {
        const isLeaseOver = () => performance.now() > claimedAt + leaseMs;
        while (!isLeaseOver()) await new Promise((resolve) => setTimeout(resolve, 5));
        return inbox.transaction(work, call);
      },
    };
    let calls = 0;
    const dispatcher = createDispatcher<InboxMessage, SqlExecutor>({
      leaseMs,
      handlers: { t: { transactional: true, handle: () => void calls++ } },
    });
    expect(await dispatcher.run(store, timeBudget(60_000))).toMatchObject({ acked: 0, lost: 1 });
    expect(calls).toBe(0);
  });

  it("IBX-075 an error whose text cannot be read is a failure like any other", async () => {
    const inbox = await inboxWith(2);
    const unreadable = () => Object.defineProperty(new Error(), "message", { value: Object.create(null) });
    let calls = 0;
    const dispatcher = createDispatcher<InboxMessage>({
      handlers: {
        t() {
          if (calls++ === 0) throw unreadable();
          return Promise.reject(unreadable());
        },
      },
    });
    expect(await dispatcher.run(inbox, timeBudget(60_000))).toMatchObject({ abandoned: 2 });
  });
});
