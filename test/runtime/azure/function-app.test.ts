import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { openScenario, stripeWebhook } from "../scenarios.js";
import { type BuiltApp, buildApp } from "./built-app.js";
import { startFunctionsHost } from "./functions-host.js";
import { startKeyVaultServer } from "./key-vault-server.js";
import { localTls } from "./local-tls.js";
import { startManagedIdentity } from "./managed-identity.js";

describe("the function app for Azure", () => {
  let app: BuiltApp;
  const closing: (() => Promise<unknown>)[] = [];
  beforeAll(async () => {
    app = await buildApp();
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  afterAll(() => app.remove());

  const started = async (env: Readonly<Record<string, string>> = {}) => {
    const scenario = await openScenario();
    closing.push(() => scenario.close());
    const host = await startFunctionsHost(app.folder, { ...scenario.env, ...env }, 60_000);
    closing.push(() => host.stop());
    return { scenario, host };
  };

  it("FUN-03 FUN-04 FUN-09 registers one HTTP function and three timers, whose schedules are settings", async () => {
    const { host } = await started({ ONCEBOX_REAP_SCHEDULE: "0 */5 * * * *" });
    expect(Object.keys(host.functions).sort()).toEqual(["cleanup", "dispatch", "reap", "webhook"]);
    const { webhook, dispatch, reap } = host.functions;
    expect(webhook).toMatchObject({
      type: "httpTrigger",
      route: "webhooks/{source}/{tenant?}",
      authLevel: "anonymous",
      methods: expect.arrayContaining(["GET", "POST", "OPTIONS"]),
    });
    expect(dispatch).toMatchObject({ type: "timerTrigger", schedule: "5 * * * * *" });
    expect(reap).toMatchObject({ type: "timerTrigger", schedule: "0 */5 * * * *" });
  });

  it("FUN-01 FUN-07 a webhook's tenant may follow the source in the path, if the source is defined so", async () => {
    const shops = { scheme: "stripe", secrets: { from: "env", name: "SCENARIO_SECRET" }, tenant: "{path}" };
    const { scenario, host } = await started({ ONCEBOX_WEBHOOKS: JSON.stringify({ shops }) });
    const sentTo = (path: string) => {
      const { headers, body } = stripeWebhook("evt_1");
      return host.webhook(
        new Request(`http://localhost${path}`, { method: "POST", headers, body, duplex: "half" }),
      );
    };
    expect((await sentTo("/webhooks/shops/acme")).status).toBe(200);
    const { messages } = await scenario.inbox.list();
    expect(messages).toMatchObject([{ source: "shops", headers: { "oncebox-tenant": "acme" } }]);
    const refused = await sentTo("/webhooks/stripe/acme");
    expect([refused.status, await refused.json()]).toEqual([404, { error: "not found" }]);
  });

  it("FUN-03 an instance that is removed finishes running handlers and releases the other messages", async () => {
    const { scenario, host } = await started();
    const ids = Array.from({ length: 40 }, (_, i) => `evt_${i}`);
    await scenario.inbox.enqueue(
      ids.map((messageId) => ({ source: "stripe", messageId, topic: "slow", payload: "{}" })),
    );
    const run = host.run("dispatch").catch(() => "cut off with the process");
    await expect.poll(() => scenario.log("started")).not.toHaveLength(0);
    expect(await host.terminate()).toBe(0);
    await run;
    const begun = await scenario.log("started");
    expect(begun.length).toBeLessThan(ids.length);
    expect((await scenario.log("handled")).sort()).toEqual(begun.sort());
    const { counts, due } = await scenario.inbox.stats();
    expect(counts.Done).toBe(begun.length);
    expect(due).toBe(ids.length - begun.length); // no lease is on them
  });

  it("FUN-12 a secret store that is away: 503 and one log line per invocation; when it is back the webhook is accepted", async () => {
    const [vault, identity] = await Promise.all([startKeyVaultServer(), startManagedIdentity()]);
    closing.push(vault.stop, identity.stop);
    const reference = (name: string) => ({ from: "azure-key-vault", vault: vault.url, name });
    const { scenario, host } = await started({
      ...localTls.env,
      ...identity.env,
      ONCEBOX_DATABASE_URL: JSON.stringify(reference("database-url")),
      ONCEBOX_WEBHOOKS: JSON.stringify({ stripe: { scheme: "stripe", secrets: reference("stripe") } }),
    });
    const refused = await host.webhook(stripeWebhook("evt_1"));
    expect(refused.status).toBe(503);
    expect(refused.headers.get("retry-after")).toMatch(/^\d+$/);
    expect(host.lines().filter(({ level }) => level === "error")).toEqual([
      expect.objectContaining({ category: "user", invocationId: expect.any(String) }),
    ]);

    const { ONCEBOX_DATABASE_URL: url = "", SCENARIO_SECRET: secret = "" } = scenario.env;
    vault.secrets.set("database-url", `${url}\r\n`).set("stripe", `${secret}\n`); // as editors leave them
    expect((await host.webhook(stripeWebhook("evt_1"))).status).toBe(200);
    const asked = vault.asked();
    expect((await host.webhook(stripeWebhook("evt_2"))).status).toBe(200);
    expect(vault.asked()).toBe(asked);
    expect(await scenario.rows()).toBe(2);
    expect(JSON.stringify(host.lines())).not.toContain(secret);
  });

  it("FUN-12 an instance that never reached its database ends cleanly when it is removed", async () => {
    const { host } = await started({ ONCEBOX_DATABASE_URL: "" });
    await expect(host.run("dispatch")).rejects.toThrow(/There is no database/);
    expect(await host.terminate()).toBe(0);
  });

  it("a wrong setting stops the start, and the error names it", async () => {
    const starting = started({ ONCEBOX_WAKE_QUEUE: "Wake_Up", AzureWebJobsStorage: "x" });
    await expect(starting).rejects.toThrow(/ONCEBOX_WAKE_QUEUE must be the name of a queue/);
  });
});
