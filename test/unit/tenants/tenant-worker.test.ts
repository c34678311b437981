import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  createTenantStores,
  createTenantWorker,
  type Tenant,
  type TenantStoreProvider,
  type TenantWorker,
  type TenantWorkerOptions,
} from "../../../src/app/tenants.js";
import { silentLogger } from "../../../src/base/logger.js";
import { createDispatcher, type InboxMessage, migrate, newOwnerToken } from "../../../src/index.js";
import type { Database } from "../../../src/sql/dialect.js";
import type { SqlExecutor } from "../../../src/sql/driver.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { gate } from "../../contract/support/gate.js";

let folder: string;
let tenants: TenantStoreProvider;
let list: Tenant[];
let worker: TenantWorker | undefined;
/** The times of each tenant's polls. */
let polls: Map<string, number[]>;
let nowMs: number;

const fileOf = (id: string) => join(folder, `${id}.db`);
const tenant = (id: string): Tenant => ({ id, database: `sqlite:${fileOf(id)}` });
const message = (messageId: string) => ({ source: "test", messageId, topic: "t", payload: "" });

/** The database as it is, with its polls recorded. */
function watched(id: string, db: Database): Database {
  const { transaction, close } = db.driver;
  return {
    ...db,
    driver: {
      query(statement, params, options) {
        if (statement.name === "poll") polls.set(id, [...(polls.get(id) ?? []), nowMs]);
        return db.driver.query(statement, params, options);
      },
      transaction: transaction.bind(db.driver),
      close: close.bind(db.driver),
    },
  };
}

async function add(id: string): Promise<void> {
  const db = openSqlite({ file: fileOf(id) });
  await migrate(db);
  await db.close();
  list = [...list, tenant(id)];
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "oncebox-worker-"));
  list = [];
  polls = new Map();
  nowMs = 0;
  worker = undefined;
  tenants = createTenantStores({
    discover: () => list,
    open: (url) => {
      const file = url.slice("sqlite:".length);
      const id = /([^/\\]+)\.db$/.exec(file)![1]!;
      return watched(id, openSqlite({ file }));
    },
  });
});
afterEach(async () => {
  await worker?.stop();
  await tenants.close();
  await rm(folder, { recursive: true, force: true });
});

/** A worker on a clock that advances only while the worker pauses, until `endMs`; then the pause does not end. */
function onClock(
  handled: (id: string, store: string) => unknown,
  endMs: number,
  events: Record<number, () => unknown> = {},
  options: Partial<TenantWorkerOptions> = {},
): Promise<void> {
  return new Promise((resolve) => {
    let reaped = (): void => {};
    const isReaped = new Promise<void>((end) => {
      reaped = end;
    });
    worker = createTenantWorker({
      tenants,
      now: () => nowMs,
      logger: silentLogger,
      dispatchers: {
        outbox: undefined,
        inbox: createDispatcher<InboxMessage, SqlExecutor>({
          handlers: { t: async ({ messageId }, { store }) => void (await handled(messageId, store)) },
        }),
      },
      async pause(ms, signal) {
        const forGood = () => new Promise<void>((end) => signal.addEventListener("abort", () => end()));
        if (ms > 5_000) {
          reaped();
          return forGood(); // until the next reap
        }
        await isReaped;
        nowMs += ms;
        await events[nowMs]?.();
        if (nowMs < endMs) return;
        resolve();
        await forGood();
      },
      ...options,
    });
  });
}
const between = (times: readonly number[] = []) => times.slice(1).map((at, index) => at - times[index]!);

describe("a worker for many tenants", () => {
  it("FUN-07 ADD-09 polls idle tenants less and less often, up to once a minute, and a tenant with work at once again", async () => {
    await add("idle");
    await add("light");
    const handled: [string, number][] = [];
    await onClock((id) => void handled.push([id, nowMs]), 300_000, {
      200000: async () => (await tenants.inbox("light")).receive(message("1")),
    });
    const [, ...idle] = polls.get("idle")!; // the first of them is the reaper's
    expect(between(idle)).toEqual([500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 59_500, 59_500, 59_500]);
    const [[id, at]] = handled as [[string, number]];
    expect(id).toBe("1");
    expect(at - 200_000).toBeLessThanOrEqual(60_000);
    // After that its idle back-off starts anew.
    const after = polls.get("light")!.filter((time) => time > at);
    expect(between(after).slice(0, 3)).toEqual([1_000, 2_000, 4_000]);
  });

  it("FUN-06 FUN-07 ADD-09 a wake-up polls its tenant at once, and no other", async () => {
    await add("a");
    await add("b");
    const handled: string[] = [];
    let pollsOfB = 0;
    const woken = new Promise<void>((resolve) => {
      void onClock(
        (id, store) => {
          handled.push(`${store} ${id} ${nowMs}`);
          resolve();
        },
        150_500,
        {
          150500: async () => {
            await (await tenants.inbox("a")).receive(message("1"));
            pollsOfB = polls.get("b")!.length;
            worker!.wake("a");
          },
        },
      );
    });
    await woken;
    await worker!.stop();
    expect(handled).toEqual(["a 1 150500"]);
    expect(polls.get("b")).toHaveLength(pollsOfB);
  });

  it("FUN-06 FUN-07 ADD-16 a wake-up polls its tenant at once, though a handler of the same tenant still runs", async () => {
    await add("a");
    const inbox = await tenants.inbox("a");
    await inbox.receive(message("slow"));
    const begun = gate();
    const secondHandled = gate();
    const handled: string[] = [];
    void onClock(async (id) => {
      begun.open();
      if (id === "slow") await secondHandled.promise; // only the second message lets it end
      handled.push(id);
      secondHandled.open();
    }, 1_000);
    await begun.promise;
    await inbox.receive(message("second"));
    worker!.wake("a");
    await expect.poll(() => handled).toEqual(["second", "slow"]);
  });

  it("IBX-095 IBX-096 FUN-08 serves tenants that are added while it runs, and no longer those that are removed", async () => {
    await add("a");
    const handled: string[] = [];
    await onClock((id, store) => void handled.push(`${store} ${id}`), 20_000, {
      5000: async () => {
        await add("b");
        await tenants.refresh();
        await (await tenants.inbox("b")).receive(message("1"));
      },
      10000: async () => {
        list = list.filter(({ id }) => id !== "a");
        await tenants.refresh();
      },
    });
    expect(handled).toEqual(["b 1"]);
    expect(polls.get("a")!.every((at) => at <= 10_000)).toBe(true);
  });

  it("IBX-072 FUN-04 ends expired leases", async () => {
    await add("a");
    const inbox = await tenants.inbox("a");
    await inbox.receive(message("1"));
    await inbox.claim({ owner: newOwnerToken(), leaseMs: 1 });
    await new Promise((resolve) => setTimeout(resolve, 5));
    await onClock(() => {}, 500, {}, { dispatchers: { inbox: undefined, outbox: undefined } });
    await expect
      .poll(async () => (await inbox.list({})).messages)
      .toMatchObject([{ messageId: "1", lockedUntil: null }]);
  });

  it("MID-09 stopping lets running handlers finish and settles them, and starts nothing new", async () => {
    await add("a");
    const inbox = await tenants.inbox("a");
    await inbox.receive(message("1"));
    let begun = (): void => {};
    let end = (): void => {};
    const isBegun = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const mayEnd = new Promise<void>((resolve) => {
      end = resolve;
    });
    void onClock(async () => {
      begun();
      await mayEnd;
    }, 1_000);
    await isBegun;
    await inbox.receive(message("2"));
    const stopped = worker!.stop();
    end();
    await stopped;
    worker!.wake("a");
    expect((await inbox.stats()).counts).toMatchObject({ Done: 1, Seen: 0, Processing: 1 });
  });

  it("refuses unknown options and invalid times", () => {
    const options = { tenants, dispatchers: { inbox: undefined, outbox: undefined } };
    expect(() => createTenantWorker({ ...options, selection: {} } as never)).toThrow(/selection/);
    expect(() => createTenantWorker({ ...options, idlePollMs: 0 })).toThrow(/idlePollMs/);
  });
});
