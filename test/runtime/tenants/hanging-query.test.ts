import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { createTenantStores, type Tenant } from "../../../src/app/tenants.js";
import { createDispatcher, migrate, timeBudget } from "../../../src/index.js";
import { openPostgres } from "../../../src/sql/postgres/index.js";
import { createTenantDispatcher } from "../../../src/tenants/scheduling/tenant-dispatcher.js";

const url = inject("postgresUrl");
const schemas = ["locked", "free"].map((name) => `${name}_${randomUUID().slice(0, 8)}`);
const [locked, free] = schemas as [string, string];
const application = `hanging_${randomUUID().slice(0, 8)}`;
let admin: pg.Client;
let blocker: pg.Client;

beforeAll(async () => {
  [admin, blocker] = [new pg.Client(url), new pg.Client(url)];
  await Promise.all([admin.connect(), blocker.connect()]);
  const db = openPostgres({ url });
  for (const schema of schemas) await migrate(db, { schema });
  await db.close();
});
afterAll(async () => {
  await blocker.end();
  for (const schema of schemas) await admin.query(`drop schema "${schema}" cascade`);
  await admin.end();
});

const message = { source: "test", messageId: "1", topic: "t", payload: "" };

describe("a tenant that hangs in the middle of a query", () => {
  it("FUN-07 is cut off by its own time limit, its query is cancelled, and another tenant on the same server is served", async () => {
    const named = new URL(url);
    named.searchParams.set("application_name", application);
    const list: readonly Tenant[] = schemas.map((schema) => ({ id: schema, database: named.href, schema }));
    const tenants = createTenantStores({ discover: () => list });
    for (const id of schemas) await (await tenants.inbox(id)).receive(message);
    await blocker.query("begin");
    await blocker.query(`lock table "${locked}".inbox_state in access exclusive mode`);

    const handled: string[] = [];
    const inbox = createDispatcher({ handlers: { t: (_, { store }) => void handled.push(store) } });
    let nowMs = 0;
    const dispatcher = createTenantDispatcher({
      tenants,
      dispatchers: { inbox, outbox: undefined },
      pollTimeoutMs: 300,
      now: () => nowMs,
    });
    expect(await dispatcher.run(timeBudget(30_000))).toMatchObject({ failed: [locked], left: [] });
    expect(handled).toEqual([free]);
    // The query was cancelled at the server: none waits for the lock any more.
    const waiting = async () => {
      const { rows } = await admin.query(
        "select count(*)::int as count from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock'",
        [application],
      );
      return rows[0].count;
    };
    await expect.poll(waiting).toBe(0);

    await blocker.query("rollback");
    expect(await dispatcher.run(timeBudget(30_000))).toMatchObject({ quarantined: [locked], failed: [] });
    nowMs += 5_000;
    expect(await dispatcher.run(timeBudget(30_000))).toMatchObject({ quarantined: [], failed: [] });
    expect(handled).toEqual([free, locked]);
    await tenants.close();
  });
});
