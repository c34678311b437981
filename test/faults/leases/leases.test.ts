import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, inject, it, onTestFinished } from "vitest";
import type { LeasingInboxStore } from "../../../src/inbox-store/inbox-store.js";
import { type InboxStoreSettings, openInboxStore } from "../../../src/inbox-store/open-inbox-store.js";
import { createSqlInboxStore } from "../../../src/inbox-store/sql-inbox-store.js";
import { migrate } from "../../../src/index.js";
import type { ContractHarness, TestDatabase } from "../../contract/harness.js";
import { checkHistory } from "../../support/leases/check-history.js";
import type { History } from "../../support/leases/history-records.js";
import { type RecordedCall, statusOf } from "../../support/leases/recorded-call.js";
import { postgresHarness } from "../../support/postgres-harness.js";
import { findServer, needs } from "../../support/servers/find-server.js";
import { mongoServer, redisServer } from "../../support/servers/recipes.js";
import { sqliteHarness } from "../../support/sqlite-harness.js";
import { sqlServerHarness } from "../../support/sqlserver-harness.js";
import { times } from "../../support/times.js";
import { type FleetCounts, runInOneProcess, runInProcesses } from "./lease-run.js";

const keys = times(40);
const clients = 64;
const isLong = keys > 500;
const shape = { clients, keys, leaseMs: isLong ? 1_000 : 400, seed: "leases" };
const faults = isLong
  ? { processes: 4, faultsEach: 3, messagesBetween: 40 }
  : { processes: 4, faultsEach: 1, messagesBetween: 3 };
const timeoutMs = isLong ? 1_800_000 : 120_000;

const sqlServerUrl = inject("sqlServerUrl");
const otherServers = [
  { name: "Redis", kind: "redis", recipe: redisServer, start: await findServer(redisServer) },
  { name: "MongoDB", kind: "mongodb", recipe: mongoServer, start: await findServer(mongoServer) },
] as const;

describe(`${clients} clients of ${keys} keys, some of which die, come late, release, or use leases of others`, () => {
  it(
    "SVC-03 SVC-04 SVC-05 PostgreSQL: each generation of a key has exactly one winner, though processes are killed and stopped",
    async () => {
      const url = inject("postgresUrl");
      const { database, store } = await open(postgresHarness(url));
      await runAndVerify("PostgreSQL", store, { kind: "sql", url, schema: database.schema });
    },
    timeoutMs,
  );

  it(
    "SVC-03 SVC-04 SVC-05 SQLite file: each generation of a key has exactly one winner, though processes are killed and stopped",
    async () => {
      const { database, store } = await open(sqliteHarness("file"));
      await runAndVerify("SQLite", store, { kind: "sql", url: database.db.id });
    },
    timeoutMs,
  );

  it.skipIf(sqlServerUrl === "")(
    "SVC-03 SVC-04 SVC-05 SQL Server (needs ONCEBOX_TEST_MSSQL_URL or Docker): each generation of a key has exactly one winner",
    async () => {
      const { database, store } = await open(sqlServerHarness(sqlServerUrl));
      const schema = database.schema!;
      const another = () => createSqlInboxStore(database.reopen(), { schema });
      // a pool of the harness has four connections
      verify("SQL Server", await runInOneProcess({ ...shape, store: inTurn([store, another(), another()]) }));
    },
    timeoutMs,
  );

  for (const { name, kind, recipe, start } of otherServers)
    it.skipIf(start === undefined)(
      `SVC-03 SVC-04 SVC-05 SVC-10 ${name} (${needs(recipe)}): each generation of a key has exactly one winner, though processes are killed and stopped`,
      async () => {
        const { url, stop } = await start!();
        onTestFinished(stop);
        const settings: InboxStoreSettings =
          kind === "redis"
            ? { kind, url, prefix: `leases:${Date.now()}:` }
            : { kind, url, collection: `leases_${Date.now()}` };
        const store = await openInboxStore(settings);
        onTestFinished(() => store.close());
        await runAndVerify(name, store, settings);
      },
      timeoutMs,
    );
});

const runAndVerify = async (name: string, store: LeasingInboxStore, settings: InboxStoreSettings) =>
  verify(name, await runInProcesses({ ...shape, ...faults, store, settings, atEnd: onTestFinished }));

async function open(harness: ContractHarness) {
  const database: TestDatabase = await harness.open();
  onTestFinished(() => database.close());
  const named = database.schema === undefined ? {} : { schema: database.schema };
  await migrate(database.db, { ...named, outbox: false });
  return { database, store: createSqlInboxStore(database.db, named) };
}

function verify(name: string, history: History & { readonly faults?: FleetCounts }): void {
  const { counts, violations } = reportOf(history);
  console.log(`${name}: ${JSON.stringify({ ...counts, ...history.faults })}`);
  if (violations.length > 0) {
    const file = join(tmpdir(), `oncebox-leases-${name}.json`);
    writeFileSync(file, JSON.stringify(history.calls));
    console.log(`the history: ${file}`);
  }
  expect(violations).toEqual([]);
  expect(counts.processed).toBe(keys);
  // otherwise the run showed nothing
  const { acquired, busy, released, refused, expired } = counts;
  expect(acquired).toBeGreaterThan(keys);
  expect(Math.min(busy, released, refused, expired)).toBeGreaterThan(0);
  if (history.faults !== undefined)
    expect(Math.min(history.faults.kills, history.faults.stops)).toBeGreaterThanOrEqual(faults.processes);
}

/** What happened in a run. */
interface LeaseCounts {
  readonly calls: number;
  readonly acquired: number;
  readonly busy: number;
  readonly released: number;
  /** Calls of one that does not hold the key any more, or never did. */
  readonly refused: number;
  /** Leases that were taken over after their end. */
  readonly expired: number;
  /** Calls whose process was killed before they returned. */
  readonly unreturned: number;
  /** Keys that were processed at the end. */
  readonly processed: number;
  readonly clockBoundsMs: number;
}

interface LeaseReport {
  readonly counts: LeaseCounts;
  readonly violations: readonly string[];
}

function reportOf({ calls, errors }: History): LeaseReport {
  const { violations, clockBoundsMs } = checkHistory(calls);
  const returned = (status: string) => calls.filter((one) => statusOf(one) === status).length;
  const acquired = leasesOf(calls);
  const ended = returned("Released") + processedByLease(calls);
  const inspections = calls.filter(({ step }) => step.kind === "inspect");
  const counts = {
    calls: calls.length,
    acquired,
    busy: returned("Busy"),
    released: returned("Released"),
    refused: returned("LeaseLost"),
    expired: acquired - ended,
    unreturned: calls.filter(({ returnedAt }) => returnedAt === Number.POSITIVE_INFINITY).length,
    processed: new Set(inspections.filter((one) => statusOf(one) === "Processed").map(({ key }) => key)).size,
    clockBoundsMs,
  };
  return { counts, violations: [...errors, ...violations] };
}

/** A repeated call that found its own lease is not counted. */
const leasesOf = (calls: readonly RecordedCall[]): number =>
  new Set(
    calls.flatMap(({ step }) =>
      step.kind === "tryBegin" && step.result?.status === "Acquired"
        ? `${step.result.leaseId} ${step.result.expiresAt}`
        : [],
    ),
  ).size;

const processedByLease = (calls: readonly RecordedCall[]): number =>
  new Set(
    calls.flatMap((one) => (one.step.kind === "finish" && statusOf(one) === "Processed" ? one.key : [])),
  ).size;

/** Stores of the same keys as one: each call goes to the next of them. */
function inTurn(stores: readonly LeasingInboxStore[]): LeasingInboxStore {
  let calls = 0;
  const next = (): LeasingInboxStore => stores[calls++ % stores.length]!;
  return {
    tryBegin: (...args) => next().tryBegin(...args),
    renew: (...args) => next().renew(...args),
    finish: (...args) => next().finish(...args),
    release: (...args) => next().release(...args),
    isProcessed: (...args) => next().isProcessed(...args),
    markProcessed: (...args) => next().markProcessed(...args),
    inspect: (...args) => next().inspect(...args),
    close: async () => void (await Promise.all(stores.map((store) => store.close()))),
  };
}
