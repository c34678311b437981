import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { tenantBatchIn } from "../../../src/tenants/fan-out/tenant-batch.js";
import { signWebhook } from "../../../src/webhooks/index.js";
import { stripe } from "../../../src/webhooks/presets/stripe.js";
import { type Azurite, startAzurite } from "../azure/azurite.js";
import { type BuiltApp, buildApp } from "../azure/built-app.js";
import { type FunctionsHost, startFunctionsHost } from "../azure/functions-host.js";
import { localTls } from "../azure/local-tls.js";
import { openTenantScenario, type TenantScenario, tenantApp } from "./tenant-scenario.js";

const secret = "whsec_azure_secret_of_tests";

/** The function app as it would be deployed, and Microsoft's Storage queue between its functions. */
describe("tenants of many databases on Azure Functions", () => {
  let app: BuiltApp;
  let azurite: Azurite;
  let scenario: TenantScenario;
  const closing: (() => Promise<unknown>)[] = [];
  beforeAll(async () => {
    [app, azurite] = await Promise.all([buildApp(tenantApp), startAzurite()]);
  });
  beforeEach(async () => {
    scenario = await openTenantScenario(10, secret);
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
    await scenario.close();
  });
  afterAll(async () => {
    await Promise.all([app?.remove(), azurite?.stop()]);
  });

  const started = async (queue: string, env: Readonly<Record<string, string>> = {}) => {
    const host = await startFunctionsHost(
      app.folder,
      {
        ...scenario.env,
        ...localTls.env,
        ONCEBOX_WAKE_QUEUE: queue,
        AzureWebJobsStorage: azurite.connectionString,
        ...env,
      },
      60_000,
    );
    closing.push(() => host.stop());
    return host;
  };
  /** The tenant batches that workers have finished. */
  const taken = (host: FunctionsHost) =>
    host
      .lines()
      .flatMap(({ message }) => /^wakeup took (.*)$/.exec(message)?.[1] ?? [])
      .map((text) => tenantBatchIn(JSON.parse(text))!);
  const untilTaken = (host: FunctionsHost, count: number) =>
    expect.poll(() => taken(host).length, { timeout: 60_000 }).toBe(count);

  it("FUN-07 the timer puts tenant batches into the queue, and the functions that it starts handle every tenant's messages once", async () => {
    const messages = await scenario.fill("evt");
    const host = await started("tenant-batches");
    expect(await host.run("dispatch")).toMatchObject({
      inbox: null,
      tenants: { tenantBatchesSent: 3, turns: 0 },
    });
    await untilTaken(host, 3);
    await scenario.expectHandled(messages);
    expect(
      taken(host)
        .flatMap((batch) => batch.tenants)
        .sort(),
    ).toEqual([...scenario.ids].sort());
  });

  it("FUN-07 a worker whose time is over sends on the tenants that it did not reach", async () => {
    const messages = await scenario.fill("evt", "slow");
    const host = await started("sent-on", { AzureFunctionsJobHost__functionTimeout: "00:00:03" });
    await host.run("dispatch");
    const handled = async () => new Set(await scenario.log("handled")).size;
    await expect.poll(() => taken(host).length, { timeout: 60_000 }).toBeGreaterThan(3);
    // On a busy machine a run may finish nothing, and then sends nothing on: the timer continues.
    while ((await handled()) < messages.length) {
      await host.run("dispatch");
      await new Promise((resolve) => setTimeout(resolve, 1_000));
    }
    expect([...new Set(await scenario.log("handled"))]).toEqual([...messages].sort());
  }, 120_000);

  it("FUN-07 the tenants of batches that could not be sent are sent by the next timer", async () => {
    const messages = await scenario.fill("evt");
    const away = azurite.connectionString.replace(/127\.0\.0\.1:\d+/, "127.0.0.1:1");
    const deaf = await started("lost", {
      AzureWebJobsStorage: away,
      SCENARIO_HOST_STORAGE: azurite.connectionString,
    });
    expect(await deaf.run("dispatch")).toMatchObject({ tenants: { tenantBatchesSent: 0 } });
    expect(await scenario.log("handled")).toEqual([]);
    await deaf.stop();
    const host = await started("lost");
    await host.run("dispatch");
    await untilTaken(host, 3);
    await scenario.expectHandled(messages);
  });

  it("FUN-01 FUN-06 FUN-07 a webhook with the tenant in its path wakes a worker for only that tenant", async () => {
    const host = await started("woken");
    const send = async (id: string, tenant: string) => {
      const url = `http://localhost/webhooks/stripe/${tenant}`;
      const signed = signWebhook(stripe, {
        url,
        body: JSON.stringify({ id, type: "invoice.paid" }),
        secrets: secret,
      });
      return (await host.webhook(new Request(url, { ...signed, body: signed.body as string }))).status;
    };
    expect(await send("evt_0", "nobody")).toBe(503);
    expect(await send("evt_1", "p7")).toBe(200);
    await untilTaken(host, 1);
    expect(taken(host)).toMatchObject([{ tenants: ["p7"], woken: true }]);
    await scenario.expectHandled(["p7 evt_1"]);
  });
});
