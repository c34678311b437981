import { randomUUID } from "node:crypto";
import { createServer, request } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { createInbox } from "../../src/inbox/inbox.js";
import { migrate } from "../../src/sql/migrate.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { createWebhookRoute, signWebhook, webhookMiddleware } from "../../src/webhooks/index.js";
import { stripe } from "../../src/webhooks/presets/stripe.js";
import type { TestDatabase } from "../contract/harness.js";
import { rowCount } from "../contract/support/database.js";
import { listenOn } from "../support/loopback.js";
import { postgresHarness } from "../support/postgres-harness.js";
import { startDelayingProxy } from "../support/postgres-proxies.js";

const url = inject("postgresUrl");
const secrets = "whsec_contract_secret_of_tests";
const body = '{"id":"evt_1","type":"charge.succeeded"}';
/** Three of these are more than the time of a request, and one or two are less. */
const slowMs = 400;
const receiveMs = 1_000;

describe("webhooks whose steps are all slow", () => {
  let admin: TestDatabase;
  beforeAll(async () => {
    admin = await postgresHarness(url).open();
  });
  afterAll(async () => {
    await admin?.close();
  });

  /** The head comes at once, and the body when secrets that are asked for at once have been slow. */
  const post = (port: number): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      const signed = signWebhook(stripe, { url: "https://example.com/webhooks/stripe", body, secrets });
      const headers = { ...signed.headers, "content-length": body.length };
      const options = { host: "127.0.0.1", port, path: "/webhooks/stripe", method: "POST", headers };
      const sent = request(options, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      sent.on("error", reject);
      sent.flushHeaders();
      void wait(2 * slowMs).then(() => sent.end(body));
    });

  it("FUN-01 when each step is in time but all together are not, the response is 503, and the retry is stored once", async () => {
    const table = `inbox_${randomUUID().slice(0, 8)}`;
    await migrate(admin.db, { schema: admin.schema!, inbox: table, outbox: false });
    const { message } = admin.db.dialect.names("inbox", admin.schema!, table);
    const proxy = await startDelayingProxy(url, (text) =>
      text.includes(table) ? { of: "response", ms: slowMs } : undefined,
    );
    const db = openPostgres({ url: proxy.url, maxConnections: 2 });
    const inbox = createInbox(db, { schema: admin.schema!, table });
    const answerOf = async (time: number) => {
      const slowSecrets = async () => wait(slowMs, secrets);
      const sources = { stripe: { scheme: stripe, secrets: slowSecrets } };
      const handle = webhookMiddleware(createWebhookRoute({ inbox, sources, receiveMs: time }));
      const server = createServer((incoming, outgoing) =>
        handle(incoming, outgoing, () => outgoing.destroy()),
      );
      const { port } = await listenOn(server, { port: 0 });
      const status = await post(port);
      server.closeAllConnections();
      server.close();
      return status;
    };
    expect(await answerOf(receiveMs)).toBe(503);
    expect(await answerOf(60_000)).toBe(200);
    expect(await rowCount(admin, message)).toBe(1);
    await db.close();
    await proxy.close();
  });
});
