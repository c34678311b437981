import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { openScenario, type Scenario, stripeWebhook } from "../scenarios.js";
import { type Azurite, startAzurite } from "./azurite.js";
import { type BuiltApp, buildApp } from "./built-app.js";
import { type FunctionsHost, startFunctionsHost } from "./functions-host.js";
import { localTls } from "./local-tls.js";
import { startManagedIdentity } from "./managed-identity.js";

const wakeUpMessage = 'wakeup took {"oncebox":"wake-up"}';

describe("wake-up by a Storage queue", () => {
  let app: BuiltApp;
  let azurite: Azurite;
  const closing: (() => Promise<unknown>)[] = [];
  beforeAll(async () => {
    [app, azurite] = await Promise.all([buildApp(), startAzurite()]);
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  afterAll(async () => {
    await Promise.all([app?.remove(), azurite?.stop()]);
  });

  const started = async (queue: string, env: Readonly<Record<string, string>> = {}) => {
    const scenario = await openScenario();
    closing.push(() => scenario.close());
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
    return { scenario, host };
  };
  const handled = (scenario: Scenario, count: number) =>
    expect.poll(async () => new Set(await scenario.log("handled")).size).toBe(count);
  const wakeUps = (host: FunctionsHost) => host.lines().filter(({ message }) => message === wakeUpMessage);

  it("FUN-06 a webhook wakes the dispatcher, by a queue that it creates itself, and no timer is needed", async () => {
    const { scenario, host } = await started("wake-one");
    expect((await host.webhook(stripeWebhook("evt_1"))).status).toBe(200);
    await handled(scenario, 1);
    await expect.poll(() => wakeUps(host).length).toBe(1);
    await expect.poll(() => scenario.log("published")).toEqual(["evt_1"]);
  });

  it("FUN-06 a burst of webhooks sends fewer wake-ups than webhooks, and all are handled", async () => {
    const { scenario, host } = await started("wake-burst");
    const ids = Array.from({ length: 60 }, (_, i) => `evt_${i}`);
    const answers = await Promise.all(ids.map((id) => host.webhook(stripeWebhook(id))));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    await handled(scenario, ids.length);
    expect((await scenario.log("handled")).length).toBe(ids.length);
    await expect.poll(() => wakeUps(host).length).toBeGreaterThan(0);
    expect(wakeUps(host).length).toBeLessThan(ids.length / 2);
  });

  it("FUN-03 FUN-06 a dispatcher whose time is used up with work left wakes its successor", async () => {
    const { scenario, host } = await started("wake-next", {
      AzureFunctionsJobHost__functionTimeout: "00:00:02",
    });
    const ids = Array.from({ length: 60 }, (_, i) => `evt_${i}`);
    await scenario.inbox.enqueue(
      ids.map((messageId) => ({ source: "stripe", messageId, topic: "slow", payload: "{}" })),
    );
    expect(await host.run("dispatch")).toMatchObject({ more: true });
    // On a busy machine a run may handle nothing, and then it wakes no successor: the timer goes on.
    while (new Set(await scenario.log("handled")).size < ids.length) await host.run("dispatch");
    await expect.poll(() => wakeUps(host).length).toBeGreaterThan(0);
    expect(new Set(await scenario.log("handled")).size).toBe(ids.length);
  });

  it("FUN-06 the app's managed identity replaces a key", async () => {
    const identity = await startManagedIdentity();
    closing.push(() => identity.stop());
    const { scenario, host } = await started("wake-identity", {
      ...identity.env,
      AzureWebJobsStorage: "",
      AzureWebJobsStorage__queueServiceUri: azurite.queueServiceUrl,
      SCENARIO_HOST_STORAGE: azurite.connectionString,
    });
    expect((await host.webhook(stripeWebhook("evt_1"))).status).toBe(200);
    await handled(scenario, 1);
    expect(identity.resources).toContain("https://storage.azure.com");
  });

  it("FUN-01 FUN-06 storage that is away does not fail a webhook; a warning without the key reports it", async () => {
    const away = azurite.connectionString.replace(/127\.0\.0\.1:\d+/, "127.0.0.1:1");
    const { scenario, host } = await started("wake-away", {
      AzureWebJobsStorage: away,
      SCENARIO_HOST_STORAGE: azurite.connectionString,
    });
    expect((await host.webhook(stripeWebhook("evt_1"))).status).toBe(200);
    expect(await scenario.rows()).toBe(1);
    const warnings = host.lines().filter(({ level }) => level === "warning");
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatchObject({ category: "user", invocationId: expect.any(String) });
    const key = /AccountKey=([^;]+)/.exec(away)![1]!;
    expect(JSON.stringify(host.lines())).not.toContain(key);
    await host.run("dispatch");
    expect(await scenario.log("handled")).toEqual(["evt_1"]);
  });
});
