import { afterEach, describe, expect, inject, it } from "vitest";
import { openJobs } from "../../../src/app/jobs.js";
import { timeBudget } from "../../../src/base/async.js";
import { omitUndefined } from "../../../src/base/defined.js";
import { silentLogger } from "../../../src/base/logger.js";
import { readEnvironment } from "../../../src/config/environment.js";
import type { LeasingInboxStore } from "../../../src/inbox-store/inbox-store.js";
import { createSqlInboxStore } from "../../../src/inbox-store/sql-inbox-store.js";
import { type AppDefinition, defineApp } from "../../../src/index.js";
import type { Database } from "../../../src/sql/dialect.js";
import { migrate } from "../../../src/sql/migrate.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { postgresHarness } from "../../support/postgres-harness.js";
import { sqliteHarness } from "../../support/sqlite-harness.js";

const dayMs = 24 * 60 * 60 * 1_000;
const token = "app-token-0123456789";
const tokens = { from: "env", name: "INBOX_SERVICE_TOKENS" } as const;
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function opened(definition: AppDefinition, env: NodeJS.ProcessEnv = { INBOX_SERVICE_TOKENS: token }) {
  const environment = await readEnvironment(env);
  const app = await openJobs(defineApp({ database: "sqlite::memory:", ...definition }), {
    environment,
    logger: silentLogger,
  });
  closing.push(() => app.close());
  return app;
}

const tryBegin = (key: string, init: RequestInit = {}) =>
  new Request("http://localhost/v1/inbox/try-begin", {
    method: "POST",
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify({ key }),
    ...init,
  });

describe("the service of an app", () => {
  it("SVC-03 SVC-07 is on the app's inbox, with tokens by reference; an app without one has none", async () => {
    const app = await opened({ service: { tokens } });
    await app.migrate();
    expect(await (await app.service!.fetch(tryBegin("a"))).json()).toMatchObject({ status: "Acquired" });
    expect((await app.service!.fetch(tryBegin("a", { headers: {} }))).status).toBe(401);
    expect((await createSqlInboxStore(app.db).inspect("a")).status).toBe("Leased");
    expect((await opened({})).service).toBeUndefined();
  });

  it("SVC-07 tokens may be texts and references in one list, and auth may be none", async () => {
    const app = await opened({ service: { tokens: ["first-token-0123456789", tokens] } });
    await app.migrate();
    for (const one of ["first-token-0123456789", token]) {
      const headers = { authorization: `Bearer ${one}` };
      expect((await app.service!.fetch(tryBegin("a", { headers }))).status).toBe(200);
    }
    const open = await opened({ service: { auth: "none" } }, {});
    await open.migrate();
    expect((await open.service!.fetch(tryBegin("a", { headers: {} }))).status).toBe(200);
  });

  it("SVC-10 another store can be behind it; the app closes it, and an app with tenants may have one", async () => {
    const db = openSqlite({ file: ":memory:" });
    closing.push(() => db.close());
    await migrate(db);
    let closed = 0;
    const own: LeasingInboxStore = {
      ...createSqlInboxStore(db),
      close: async () => {
        closed++;
      },
    };
    const app = await opened({ service: { tokens, store: async () => own } });
    expect((await app.service!.fetch(tryBegin("a"))).status).toBe(200);
    expect(await own.inspect("a")).toMatchObject({ status: "Leased" });
    await app.migrate();
    expect(await app.cleanup(timeBudget(5_000))).not.toHaveProperty("service");
    for (const close of closing.splice(1)) await close();
    expect(closed).toBe(1);
    const tenants = { open: () => ({}) } as unknown as NonNullable<AppDefinition["tenants"]>;
    expect(() => defineApp({ tenants, service: { tokens, store: () => own } })).not.toThrow();
    expect(() => defineApp({ tenants, service: { tokens } })).toThrow("needs the app's one database");
  });

  it("SVC-07 SVC-08 a definition that cannot be right is refused, with all of its problems", async () => {
    const bad = (service: object, rest: object = {}) =>
      expect(() => defineApp({ service, ...rest } as AppDefinition));
    bad([]).toThrow("service must be an object with tokens");
    bad({}).toThrow('service must have either tokens or auth: "none"');
    bad({ tokens, auth: "none" }).toThrow('service must have either tokens or auth: "none"');
    bad({}, { tenants: [], retentionMs: -1 }).toThrow(/retentionMs.*either tokens/s);
    bad({ tokens }, { retentionMs: dayMs }).not.toThrow(); // of messages; keys have their own
    for (const [service, problem] of [
      [{ tokens, retentionMs: 6 * dayMs }, "retentionMs must be from"],
      [{ tokens, retentionMs: 31 * dayMs }, "retentionMs must be from"],
      [{ tokens, leaseMs: 1 }, "unknown option leaseMs"],
      [{ tokens: "short" }, "fewer than 16 characters"],
    ] as const)
      await expect(opened({ retentionMs: 365 * dayMs, service } as AppDefinition)).rejects.toThrow(problem);
  });
});

for (const harness of [sqliteHarness("file"), postgresHarness(inject("postgresUrl"))]) {
  describe(`the clean-up of an app's service on ${harness.name}`, () => {
    /** An app, and keys that were processed, or only acquired, so many days ago. */
    const withKeys = async (
      definition: AppDefinition,
      processed: readonly number[],
      acquired: readonly number[],
    ) => {
      const { db, schema, reopen, close } = await harness.open();
      closing.push(close);
      await migrate(db, omitUndefined({ schema }));
      const at = (days: number) =>
        createSqlInboxStore(db, {
          ...omitUndefined({ schema }),
          clock: () => new Date(Date.now() - days * dayMs),
        });
      for (const days of processed) {
        const begun = await at(days).tryBegin(`processed:${days}`);
        if (begun.status === "Acquired") await at(days).finish(`processed:${days}`, begun.leaseId);
      }
      for (const days of acquired) await at(days).tryBegin(`acquired:${days}`);
      const app = await opened({
        ...omitUndefined({ schema }),
        database: (): Database => reopen(),
        ...definition,
      });
      const all = [
        ...processed.map((days) => `processed:${days}`),
        ...acquired.map((days) => `acquired:${days}`),
      ];
      const left = async () => {
        const reports = await Promise.all(all.map(async (key) => [key, await at(0).inspect(key)] as const));
        return reports.filter(([, { status }]) => status !== "Unknown").map(([key]) => key);
      };
      return { app, left };
    };

    it("SVC-08 keys are kept for the service's retention, 30 days by default, and then removed", async () => {
      const { app, left } = await withKeys({ service: { tokens } }, [1, 29, 31, 40], [0, 29, 31]);
      const report = await app.cleanup(timeBudget(20_000));
      expect(report.service).toMatchObject({ dead: 0, more: false });
      expect(report.inbox.done + report.service!.done).toBe(3);
      expect(await left()).toEqual(["processed:1", "processed:29", "acquired:0", "acquired:29"]);
    });

    it("SVC-08 a shorter retention of the service does not shorten that of messages; 7 days is the least", async () => {
      const service = { tokens, retentionMs: 7 * dayMs };
      const { app, left } = await withKeys({ service }, [6, 8], [6, 8]);
      await app.inbox.receive({ source: "stripe", messageId: "m", topic: "t", payload: "" });
      const report = await app.cleanup(timeBudget(20_000));
      expect(report).toMatchObject({ inbox: { done: 0 }, service: { done: 2 } });
      expect(await left()).toEqual(["processed:6", "acquired:6"]);
    });

    it("SVC-08 an app's own shorter retention is the keys' too", async () => {
      const { app, left } = await withKeys(
        { retentionMs: 10 * dayMs, service: { tokens } },
        [9, 11],
        [9, 11],
      );
      await app.cleanup(timeBudget(20_000));
      expect(await left()).toEqual(["processed:9", "acquired:9"]);
    });
  });
}
