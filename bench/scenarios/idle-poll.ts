import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import {
  createTenantStores,
  type Tenant,
  type TenantDispatcher,
  type TenantStoreProvider,
  type TenantStores,
} from "../../src/app/tenants.js";
import { omitUndefined } from "../../src/base/defined.js";
import { createDispatcher, migrate, newOwnerToken, timeBudget } from "../../src/index.js";
import { loadSqlite } from "../../src/sql/sqlite/client.js";
import { createTenantDispatcher } from "../../src/tenants/scheduling/tenant-dispatcher.js";
import { startPostgres } from "../../test/support/start-postgres.js";
import { runSql } from "../databases/bench-database.js";
import { compare, ratePerSecond } from "../measure.js";
import { message } from "../messages.js";
import type { DatabaseName } from "../options.js";
import type { ResultRow, Target } from "../report.js";
import type { Scenario, ScenarioInput } from "./scenario.js";

/** Idle tenants, and the cheapest queries on their databases, one after the other on warm connections. */
interface Subject {
  readonly tenants: readonly Tenant[];
  /** Runs over all tenants in one round. */
  readonly runs: number;
  /** The queries to compare with, by their name in the table. */
  readonly queries: Readonly<Record<string, (index: number) => Promise<unknown>>>;
  close(): Promise<void>;
}

const idsOf = (count: number) => Array.from({ length: count }, (_, index) => `tenant_${index}`);

async function sqliteSubject(ids: readonly string[]): Promise<Subject> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-bench-"));
  const DatabaseSync = await loadSqlite();
  const files = ids.map((id) => join(folder, `${id}.db`));
  const handles = files.map((file) => new DatabaseSync(file));
  for (const handle of handles)
    handle.exec("pragma journal_mode = wal; create table one (value integer); insert into one values (1)");
  const oneByOne = (text: string) => {
    const statements = handles.map((handle) => handle.prepare(text));
    return async (index: number) => statements[index % ids.length]!.all();
  };
  return {
    tenants: ids.map((id, index) => ({ id, database: `sqlite:${files[index]}` })),
    runs: 150,
    // `select 1` does not open the file
    queries: { "select 1": oneByOne("select 1"), "select a row": oneByOne("select value from one") },
    async close() {
      for (const handle of handles) handle.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** On the same machine, or at the distance that databases have from functions. */
async function postgresSubject(ids: readonly string[], isAway: boolean): Promise<Subject> {
  const server = await startPostgres();
  const link = isAway ? await slowLinkTo(new URL(server.url)) : undefined;
  const admin = new pg.Client(server.url);
  await admin.connect();
  const urls: string[] = [];
  for (const id of ids) {
    await admin.query(`create database bench_${id}`);
    const url = new URL(link?.url ?? server.url);
    url.pathname = `/bench_${id}`;
    urls.push(url.href);
  }
  const clients = await Promise.all(
    urls.map(async (url) => {
      const client = new pg.Client(url);
      await client.connect();
      return client;
    }),
  );
  return {
    tenants: ids.map((id, index) => ({ id, database: urls[index]! })),
    runs: 20,
    queries: {
      "select 1": (index) =>
        clients[index % ids.length]!.query({ name: "one", text: "select 1", values: [] }),
    },
    async close() {
      await Promise.all(clients.map((client) => client.end()));
      for (const id of ids) await admin.query(`drop database bench_${id} with (force)`);
      await admin.end();
      link?.stop();
      await server.stop();
    },
  };
}

async function slowLinkTo(server: URL): Promise<{ readonly url: string; stop(): void }> {
  const file = fileURLToPath(new URL("../slow-link.mjs", import.meta.url));
  const link = fork(file, [server.hostname, server.port], {
    execArgv: [],
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
  const [printed] = (await once(link.stdout!, "data")) as [Buffer];
  const url = new URL(server);
  url.host = `127.0.0.1:${String(printed).trim()}`;
  return { url: url.href, stop: () => link.kill() };
}

interface Variant {
  readonly name: string;
  readonly open: (ids: readonly string[]) => Promise<Subject>;
  readonly target?: Target;
}

const variants: Readonly<Record<DatabaseName, readonly Variant[]>> = {
  sqlserver: [],
  sqlite: [{ name: "a poll of an idle tenant", open: sqliteSubject }],
  postgres: [
    { name: "a poll of an idle tenant", open: (ids) => postgresSubject(ids, false) },
    {
      name: "a poll of an idle tenant, 1 ms away",
      open: (ids) => postgresSubject(ids, true),
      target: { atMost: 1.5 },
    },
  ],
};

/** The cost of an idle tenant for a running dispatcher that polls one tenant after the other, against `select 1`. */
export const idlePoll: Scenario = async (input) => {
  const rows: ResultRow[] = [];
  for (const variant of variants[input.databaseName]) rows.push(...(await rowsOf(variant, input)));
  return rows;
};

async function rowsOf(variant: Variant, input: ScenarioInput): Promise<readonly ResultRow[]> {
  const subject = await variant.open(idsOf(input.sizes.idleTenants));
  const stores = createTenantStores({
    discover: () => subject.tenants,
    connections: { perServer: subject.tenants.length, perDatabase: 1 }, // all of them stay warm
  });
  try {
    for (const { id } of subject.tenants) await becomeIdle(await stores.stores(id));
    const rows: ResultRow[] = [];
    for (const query of Object.keys(subject.queries))
      rows.push(await measure(subject, stores, variant, query, input));
    return rows;
  } finally {
    await stores.close();
    await subject.close();
  }
}

const done = 200;

/** Handles some messages first: an idle tenant has old messages. */
async function becomeIdle({ db, inbox }: TenantStores): Promise<void> {
  await migrate(db);
  await inbox.enqueue(Array.from({ length: done }, (_, index) => message(`m-${index}`)));
  const owner = newOwnerToken();
  for (;;) {
    const claimed = await inbox.claim({ owner, batchSize: 500 });
    if (claimed.length === 0) break;
    await inbox.ack(owner, claimed);
  }
  await runSql(db, "vacuum"); // which a database does by itself while its tenant is idle
}

async function measure(
  { queries, runs, tenants }: Subject,
  stores: TenantStoreProvider,
  { name, target }: Variant,
  query: string,
  { database, sizes }: ScenarioInput,
) {
  const dispatcher = createTenantDispatcher({
    tenants: stores,
    dispatchers: { inbox: createDispatcher(handler), outbox: createDispatcher(handler) },
    concurrency: 1,
  });
  const polls = runs * tenants.length;
  const result = await compare(
    () =>
      ratePerSecond(polls, async () => {
        for (let run = 0; run < runs; run++) await pollAll(dispatcher, tenants.length);
      }),
    () =>
      ratePerSecond(polls, async () => {
        for (let index = 0; index < polls; index++) await queries[query]!(index);
      }),
    sizes,
  );
  return {
    name,
    database: database.title,
    unit: "polls/s",
    ...result,
    // of the times, not of the rates
    ratio: 1 / result.ratio,
    ratioTo: `the time of ${query}`,
    ...omitUndefined({ target }),
  };
}

const handler = { handlers: { none: () => {} } };

async function pollAll(dispatcher: TenantDispatcher, count: number): Promise<void> {
  const { turns, inbox, failed } = await dispatcher.run(timeBudget(60_000));
  if (turns !== count || inbox !== null || failed.length > 0) throw new Error("The tenants are not idle.");
}
