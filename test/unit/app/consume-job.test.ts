import { describe, expect, it } from "vitest";
import { openJobs } from "../../../src/app/jobs.js";
import { multiTenant, tenantsFromConfiguration } from "../../../src/app/tenants.js";
import { omitUndefined } from "../../../src/base/defined.js";
import { readEnvironment } from "../../../src/config/environment.js";
import { type AppDefinition, defineApp, permanentFailure } from "../../../src/index.js";
import { type TriggerMessage, triggerMessage } from "../../../src/middleware/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";

const consumer = {
  subscriber: "orders",
  handle: ({ messageId, payload }: TriggerMessage) => {
    if (payload === "poison") throw permanentFailure("unreadable");
    return { topic: "receipt", payload, correlationId: messageId };
  },
};
const message = (messageId: string, payload = "{}"): TriggerMessage =>
  triggerMessage({
    messageId,
    payload,
    topic: "order",
    headers: null,
    correlationId: null,
    partitionKey: null,
    deliveries: 1,
  });

async function appWith(definition: Partial<AppDefinition>, wake?: () => Promise<void>) {
  const app = await openJobs(defineApp({ database: () => openSqlite({ file: ":memory:" }), ...definition }), {
    environment: await readEnvironment({ ONCEBOX_LOG_LEVEL: "silent" }),
    ...omitUndefined({ wakeUp: wake && { wake } }),
  });
  await app.migrate();
  return app;
}

describe("an app's consumer", () => {
  it("MID-11 FUN-09 gets each message once, and what it returns is in the outbox, in the app's own schema and tables", async () => {
    const app = await appWith({ consumer, inbox: { table: "taken" }, outbox: { table: "sent" } });
    await app.consume!(message("1"));
    await app.consume!(message("1"));
    await app.consume!(message("2"));
    expect((await app.inbox.stats()).counts.Done).toBe(2);
    expect((await app.outbox.stats()).counts.Ready).toBe(2);
    await app.close();
  });

  it("MID-11 FUN-06 wakes the dispatcher for the messages it sent, and does not fail when waking does", async () => {
    let woken = 0;
    const app = await appWith({ consumer }, async () => {
      woken++;
      throw new Error("the queue is away");
    });
    await app.consume!(message("1"));
    expect(woken).toBe(1);
    expect((await app.outbox.stats()).counts.Ready).toBe(1);
    await app.close();
  });

  it("MID-11 a message whose handler fails is thrown, and leaves nothing in the database", async () => {
    const app = await appWith({ consumer });
    await expect(app.consume!(message("1", "poison"))).rejects.toThrow("unreadable");
    expect((await app.inbox.stats()).counts.Done).toBe(0);
    expect((await app.outbox.stats()).counts.Ready).toBe(0);
    await app.close();
  });

  it("refuses a consumer that is invalid", async () => {
    expect(() => defineApp({ consumer: { subscriber: "", handle: consumer.handle } })).toThrow(/subscriber/);
    const tenants = multiTenant({
      discover: tenantsFromConfiguration([{ id: "a", database: "sqlite::memory:" }]),
    });
    expect(() => defineApp({ consumer, tenants })).toThrow(/an app with tenants has none/);
    expect((await appWith({})).consume).toBeUndefined();
  });
});
