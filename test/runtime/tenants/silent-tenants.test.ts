import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { createTenantStores, fair, type Tenant, type TenantStores } from "../../../src/app/tenants.js";
import { createDispatcher, migrate, timeBudget } from "../../../src/index.js";
import { openPostgres } from "../../../src/sql/postgres/index.js";
import { createTenantDispatcher } from "../../../src/tenants/scheduling/tenant-dispatcher.js";
import { silentServer, sqliteTenants } from "../../support/many-tenants.js";

let files: Awaited<ReturnType<typeof sqliteTenants>>;
let silent: Awaited<ReturnType<typeof silentServer>>;

beforeAll(async () => {
  files = await sqliteTenants(40);
  silent = await silentServer();
});
afterAll(async () => {
  await silent.stop();
  await files.remove();
});

const message = { source: "test", messageId: "1", topic: "t", payload: "" };
/** The order of the list, instead of a random one. */
const inOrder = () => fair(() => 0.999);

describe("tenants that take connections and do not work", () => {
  it("FUN-07 ADD-08 twelve on a server that says nothing do not keep forty others from being served", async () => {
    const hanging: readonly Tenant[] = Array.from({ length: 12 }, (_, index) => ({
      id: `hangs${index}`,
      database: `${silent.url}${index}`,
    }));
    const tenants = createTenantStores({
      discover: () => [...hanging, ...files.tenants],
      connections: { perInstance: 4, perServer: 2, perDatabase: 1 },
    });
    for (const { id } of files.tenants) await (await tenants.inbox(id)).receive(message);
    const handled: string[] = [];
    const inbox = createDispatcher({ handlers: { t: (_, { store }) => void handled.push(store) } });
    const dispatcher = createTenantDispatcher({
      tenants,
      dispatchers: { inbox, outbox: undefined },
      selection: inOrder(),
      concurrency: 4,
      pollTimeoutMs: 2_000,
    });
    const report = await dispatcher.run(timeBudget(5_000));
    expect(handled.sort()).toEqual(files.tenants.map(({ id }) => id).sort());
    // Each of them had two seconds, two at a time: the rest is left to another run.
    const broken = new Set([...report.failed, ...report.left]);
    expect([...broken].sort()).toEqual(hanging.map(({ id }) => id).sort());
    await tenants.close();
    expect(tenants.connections.taken()).toBe(0);
    await expect.poll(() => silent.open()).toBe(0);
  }, 60_000);

  it("FUN-07 ADD-08 a turn that was abandoned in the middle of a handler's statement gives its connections back", async () => {
    const url = inject("postgresUrl");
    const schemas = ["stuck", "next"].map((name) => `${name}_${randomUUID().slice(0, 8)}`);
    const list: readonly Tenant[] = schemas.map((schema) => {
      const own = new URL(url);
      own.searchParams.set("application_name", schema); // a pool of its own
      return { id: schema, database: own.href, schema };
    });
    const db = openPostgres({ url });
    for (const schema of schemas) await migrate(db, { schema });
    await db.close();
    const tenants = createTenantStores({
      discover: () => list,
      connections: { perInstance: 2, perServer: 2, perDatabase: 2 },
    });
    for (const schema of schemas) await (await tenants.inbox(schema)).receive(message);
    const handled: string[] = [];
    const sleep = { name: "sleep", text: "select pg_sleep(600)" };
    const dispatcher = createTenantDispatcher({
      tenants,
      dispatchers: (stores: TenantStores) => ({
        outbox: undefined,
        inbox: createDispatcher({
          handlers: {
            async t() {
              if (stores.id === schemas[0]) await stores.db.driver.query(sleep, {}); // without a signal
              handled.push(stores.id);
            },
          },
        }),
      }),
      selection: inOrder(),
      concurrency: 1,
      turnMs: 3_000,
    });
    const report = await dispatcher.run(timeBudget(20_000));
    expect(report.left).toEqual([]);
    expect(handled).toEqual([schemas[1]]);
    const admin = new pg.Client(url);
    await admin.connect();
    const sleeping = async () => {
      const { rows } = await admin.query(
        "select count(*)::int as count from pg_stat_activity where application_name = $1",
        [schemas[0]],
      );
      return rows[0].count;
    };
    await expect.poll(sleeping, { timeout: 15_000 }).toBe(0);
    await tenants.close();
    expect(tenants.connections.taken()).toBe(0);
    for (const schema of schemas) await admin.query(`drop schema "${schema}" cascade`);
    await admin.end();
  }, 60_000);
});
