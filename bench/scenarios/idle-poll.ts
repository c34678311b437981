import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { createDispatcher, migrate, newOwnerToken, timeBudget } from "../../src/index.js";
import { loadSqlite } from "../../src/sql/sqlite/client.js";
import { dueQuestion } from "../../src/tenants/due.js";
import { createTenantStores } from "../../src/tenants/index.js";
import { tenantTurn } from "../../src/tenants/tenant-turn.js";
import { startPostgres } from "../../test/support/start-postgres.js";
import { runSql } from "../databases/bench-database.js";
import { compare, ratePerSecond } from "../measure.js";
import { message } from "../messages.js";
import type { DatabaseName } from "../options.js";
import type { Scenario, ScenarioInput } from "./scenario.js";

/** A database of one tenant, and the least that anybody can ask it on a warm connection. */
interface Target {
  readonly url: string;
  readonly polls: number;
  selectOne(): Promise<unknown>;
  close(): Promise<void>;
}

async function sqliteTarget(): Promise<Target> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-bench-"));
  const file = join(folder, "tenant.db");
  const DatabaseSync = await loadSqlite();
  const handle = new DatabaseSync(file);
  const one = handle.prepare("select 1");
  return {
    url: `sqlite:${file}`,
    polls: 5_000,
    selectOne: async () => one.all(),
    async close() {
      handle.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function postgresTarget(): Promise<Target> {
  const server = await startPostgres();
  const client = new pg.Client(server.url);
  await client.connect();
  return {
    url: server.url,
    polls: 500,
    selectOne: () => client.query({ name: "one", text: "select 1", values: [] }),
    async close() {
      await client.end();
      await server.stop();
    },
  };
}

const targets: Readonly<Record<DatabaseName, () => Promise<Target>>> = {
  sqlite: sqliteTarget,
  postgres: postgresTarget,
};

/** What a tenant with nothing to do costs: a whole turn, against `select 1`. */
export const idlePoll: Scenario = async (input) => [
  await measure(await targets[input.databaseName](), input),
];

const done = 2_000;
const handler = { handlers: { none: () => {} } };

async function measure(target: Target, { database, sizes }: ScenarioInput) {
  const tenants = createTenantStores({ discover: () => [{ id: "idle", database: target.url }] });
  const stores = await tenants.stores("idle");
  await migrate(stores.db);
  // It has handled messages before, as tenants have.
  await stores.inbox.enqueue(Array.from({ length: done }, (_, index) => message(`m-${index}`)));
  const owner = newOwnerToken();
  for (;;) {
    const claimed = await stores.inbox.claim({ owner, batchSize: 500 });
    if (claimed.length === 0) break;
    await stores.inbox.ack(owner, claimed);
  }
  await runSql(stores.db, "vacuum"); // which a database does by itself while its tenant is idle

  const options = {
    dispatchers: { inbox: createDispatcher(handler), outbox: createDispatcher(handler) },
    due: dueQuestion(),
    pollMs: 2_000,
    onResult: () => {},
  };
  const budget = timeBudget(Number.POSITIVE_INFINITY);
  const many = (work: () => Promise<unknown>) => () =>
    ratePerSecond(target.polls, async () => {
      for (let index = 0; index < target.polls; index++) await work();
    });
  const result = await compare(
    many(() => tenantTurn(stores, budget, options)),
    many(() => target.selectOne()),
    sizes,
  );
  await tenants.close();
  await target.close();
  return {
    name: "a look at an idle tenant",
    database: database.title,
    unit: "looks/s",
    ...result,
    // of the times, not of the rates
    ratio: 1 / result.ratio,
    ratioTo: "the time of select 1",
    target: { atMost: 1.5 },
  };
}
