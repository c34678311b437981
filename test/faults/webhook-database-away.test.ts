import { randomUUID } from "node:crypto";
import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from "vitest";
import { createInbox } from "../../src/inbox/inbox.js";
import { migrate } from "../../src/sql/migrate.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import type { TestDatabase } from "../contract/harness.js";
import { rowCount } from "../contract/support/database.js";
import { send, stripeEvent, stripeRoute } from "../contract/webhooks/support.js";
import { startProxy } from "../support/cuttable-proxy.js";
import { postgresHarness } from "../support/postgres-harness.js";

const url = inject("postgresUrl");

describe("webhooks while PostgreSQL is away", () => {
  let admin: TestDatabase;
  const closing: (() => Promise<unknown>)[] = [];

  beforeAll(async () => {
    admin = await postgresHarness(url).open();
  });
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
  });
  afterAll(async () => {
    await admin?.close();
  });

  const throughLine = async () => {
    const target = new URL(url);
    const line = await startProxy(target.hostname, Number(target.port || 5432));
    target.hostname = "127.0.0.1";
    target.port = String(line.port);
    const db = openPostgres({ url: target.href, maxConnections: 2 });
    const table = `inbox_${randomUUID().slice(0, 8)}`;
    await migrate(admin.db, { schema: admin.schema!, inbox: table, outbox: false });
    const inbox = createInbox(db, { schema: admin.schema!, table });
    const { message } = admin.db.dialect.names("inbox", admin.schema!, table);
    closing.push(
      () => db.close(),
      () => line.cut(),
    );
    return { line, inbox, rows: () => rowCount(admin, message) };
  };

  it("FUN-01 a cut network gives 503 and no row, and the retry is stored once when it is back", async () => {
    const { line, inbox, rows } = await throughLine();
    const route = stripeRoute(inbox);
    expect(await send(route, stripeEvent("evt_1"))).toEqual({ status: 200, outcome: "enqueued" });
    await line.cut();
    const refused = await route(stripeEvent("evt_2"));
    expect(refused.status).toBe(503);
    expect(refused.headers.get("retry-after")).toMatch(/^\d+$/);
    expect(await refused.text()).toBe('{"error":"unavailable"}');
    expect(await rows()).toBe(1);
    await line.mend();
    expect(await send(route, stripeEvent("evt_2"))).toEqual({ status: 200, outcome: "enqueued" });
    expect(await send(route, stripeEvent("evt_2"))).toEqual({ status: 200, outcome: "duplicate" });
    expect(await rows()).toBe(2);
  });

  it("FUN-01 FUN-12 connections that died while the function was frozen are replaced before the provider notices", async () => {
    const { line, inbox, rows } = await throughLine();
    const route = stripeRoute(inbox);
    await send(route, stripeEvent("evt_1"));
    await line.cut();
    await line.mend();
    expect(await send(route, stripeEvent("evt_2"))).toEqual({ status: 200, outcome: "enqueued" });
    expect(await rows()).toBe(2);
  });

  it("FUN-01 a commit whose response is lost gives 503, and the retry is a duplicate", async () => {
    const { line, inbox, rows } = await throughLine();
    await send(stripeRoute(inbox), stripeEvent("evt_1"));
    line.muteAnswers();
    const answer = send(stripeRoute(inbox, { receiveMs: 2_000 }), stripeEvent("evt_2"));
    while ((await rows()) < 2) await yieldToEventLoop();
    expect((await answer).status).toBe(503);
    await line.cut();
    await line.mend();
    expect(await send(stripeRoute(inbox), stripeEvent("evt_2"))).toEqual({
      status: 200,
      outcome: "duplicate",
    });
    expect(await rows()).toBe(2);
  });
});
