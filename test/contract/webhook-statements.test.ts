import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { createInbox, type Database, migrate } from "../../src/index.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { createWebhookRoute, signWebhook, type WebhookScheme } from "../../src/webhooks/index.js";
import { startWireCounter, type WireCounter } from "../support/wire-counter.js";

/** Counted on the wire between the driver and PostgreSQL. */
describe("what a delivery of many events costs on PostgreSQL", () => {
  const schema = `batch_${randomUUID().slice(0, 8)}`;
  let counter: WireCounter;
  let db: Database;
  beforeAll(async () => {
    counter = await startWireCounter(inject("postgresUrl"));
    db = openPostgres({ url: counter.url, maxConnections: 1 });
    await migrate(db, { schema });
  });
  afterAll(async () => {
    await db.driver.query({ name: "raw", text: `drop schema ${schema} cascade`, unprepared: true }, {});
    await db.close();
    await counter.close();
  });

  it("FUN-01 a thousand events with a tenth known ones are one statement and one round trip", async () => {
    const scheme: WebhookScheme = {
      verify: { kind: "signature", header: "x-signature" },
      split: "{json:}",
      messageId: "{item:id}",
    };
    const secrets = "secret-of-16-bytes";
    const inbox = createInbox(db, { schema });
    const route = createWebhookRoute({ inbox, sources: { acme: { scheme, secrets } } });
    const deliver = async (from: number, to: number) => {
      const events = Array.from({ length: to - from }, (_, index) => ({ id: `e${from + index}` }));
      const signed = signWebhook(scheme, {
        url: "https://example.com/webhooks/acme",
        body: JSON.stringify(events),
        secrets,
      });
      const { messages } = (await (await route(new Request(signed.url, signed as RequestInit))).json()) as {
        messages: { outcome: string }[];
      };
      return messages.filter(({ outcome }) => outcome === "enqueued").length;
    };
    expect(await deliver(0, 100)).toBe(100); // the connection is open, the statement prepared
    let enqueued = 0;
    const cost = await counter.count(async () => {
      enqueued = await deliver(0, 1_000);
    });
    expect(cost).toEqual({ statements: 1, roundTrips: 1 });
    expect(enqueued).toBe(900);
  });
});
