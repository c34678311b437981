import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createTenantStores, type TenantStoreProvider } from "../../../src/app/tenants.js";
import { type LogFields, silentLogger } from "../../../src/base/logger.js";
import { type Budget, createDispatcher, type Database, migrate, timeBudget } from "../../../src/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { createTenantDispatcher } from "../../../src/tenants/scheduling/tenant-dispatcher.js";

const dispatchers = { inbox: createDispatcher({ handlers: {} }), outbox: undefined };
const fileOf = (url: string) => url.slice("sqlite:".length);
let folder: string;
let tenants: TenantStoreProvider | undefined;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "oncebox-poll-"));
});
afterEach(async () => {
  await tenants?.close();
  tenants = undefined;
  await rm(folder, { recursive: true, force: true });
});

/** Tenants with migrated databases, of which one may be open at a time. */
async function makeTenants(
  ids: readonly string[],
  open: (url: string) => Database = (url) => openSqlite({ file: fileOf(url) }),
): Promise<TenantStoreProvider> {
  const list = ids.map((id) => ({ id, database: `sqlite:${join(folder, `${id}.db`)}` }));
  for (const { database } of list) {
    const db = openSqlite({ file: fileOf(database) });
    await migrate(db);
    await db.close();
  }
  tenants = createTenantStores({ discover: () => list, open, connections: { files: 1 } });
  return tenants;
}

const untilAborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason));
  });

describe("polls of tenants", () => {
  it("FUN-07 take any implementation of a budget", async () => {
    class Own implements Budget {
      readonly signal = new AbortController().signal;
      private readonly end = performance.now() + 60_000;
      remainingMs(): number {
        return this.end - performance.now();
      }
    }
    const dispatcher = createTenantDispatcher({ tenants: await makeTenants(["a"]), dispatchers });
    for (const _ of ["to open it", "when it is open"]) {
      expect(await dispatcher.run(new Own())).toMatchObject({ turns: 1, failed: [], left: [] });
    }
  });

  it("FUN-07 give their connection slot back when a driver throws instead of returning a promise", async () => {
    let isBroken = false;
    const open = (url: string): Database => {
      const db = openSqlite({ file: fileOf(url) });
      const broken: typeof db.driver.query = (...args) => {
        if (isBroken) throw new Error("broken");
        return db.driver.query(...args);
      };
      return { ...db, driver: { ...db.driver, query: broken } };
    };
    const dispatcher = createTenantDispatcher({ tenants: await makeTenants(["a", "b"], open), dispatchers });
    expect(await dispatcher.run(timeBudget(60_000), ["a"])).toMatchObject({ turns: 1, failed: [] });
    isBroken = true;
    expect(await dispatcher.run(timeBudget(60_000), ["a"])).toMatchObject({ failed: ["a"] });
    isBroken = false;
    expect(await dispatcher.run(timeBudget(5_000), ["b"])).toMatchObject({ turns: 1, failed: [], left: [] });
  });

  it("FUN-07 that the end of the run's time cuts off leave the tenant to another run, and do not quarantine it", async () => {
    let hangs = false;
    const open = (url: string): Database => {
      const db = openSqlite({ file: fileOf(url) });
      const hanging: typeof db.driver.query = (...args) =>
        hangs ? untilAborted(args[2]!.signal!) : db.driver.query(...args);
      return { ...db, driver: { ...db.driver, query: hanging } };
    };
    const slow = async (isOpen: boolean) => {
      hangs = false;
      const dispatcher = createTenantDispatcher({ tenants: await makeTenants(["a"], open), dispatchers });
      if (isOpen) await dispatcher.run(timeBudget(60_000));
      hangs = true;
      const report = await dispatcher.run(timeBudget(300));
      hangs = false;
      expect(report).toMatchObject({ failed: [], left: ["a"] });
      expect(await dispatcher.run(timeBudget(60_000))).toMatchObject({ turns: 1, quarantined: [], left: [] });
      await tenants!.close();
    };
    for (const isOpen of [true, false]) await slow(isOpen);
  });

  it("FUN-07 MID-01 report missing tables with the database", async () => {
    const reasons: unknown[] = [];
    const database = `sqlite:${join(folder, "empty.db")}`;
    tenants = createTenantStores({ discover: () => [{ id: "empty", database }] });
    const logger = {
      ...silentLogger,
      error: (_: string, { reason }: LogFields) => void reasons.push(reason),
    };
    const dispatcher = createTenantDispatcher({ tenants, dispatchers, logger });
    expect(await dispatcher.run(timeBudget(60_000))).toMatchObject({ failed: ["empty"] });
    expect(reasons).toEqual([expect.stringMatching(/^The inbox or the outbox is not in sqlite:.*empty\.db/)]);
  });
});
