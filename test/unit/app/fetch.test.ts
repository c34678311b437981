import { createServer, request as send } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { afterWebhooks } from "../../../src/app/app-http.js";
import type { LimitedCalls } from "../../../src/app/limited-calls.js";
import { silentLogger } from "../../../src/base/logger.js";
import { readEnvironment } from "../../../src/config/environment.js";
import {
  type App,
  type AppDefinition,
  type Budget,
  createApp,
  defineApp,
  timeBudget,
} from "../../../src/index.js";
import { signWebhook } from "../../../src/webhooks/index.js";
import { stripe } from "../../../src/webhooks/presets/stripe.js";
import { gate } from "../../contract/support/gate.js";

const secret = "whsec_test_secret_of_tests";
const token = "token_of_the_tests_0123456789";
const everything = {
  sources: { stripe: { scheme: "stripe", secrets: secret } },
  service: { tokens: token },
  admin: { tokens: `tester:${token}` },
  cron: { tokens: token },
} as const;

let apps: App[] = [];
afterEach(async () => {
  await Promise.all(apps.map((app) => app.close()));
  apps = [];
});

async function running(definition: AppDefinition): Promise<App> {
  const environment = await readEnvironment({ ONCEBOX_LOG_LEVEL: "silent" });
  const app = await createApp(defineApp({ database: "sqlite::memory:", ...definition }), { environment });
  apps.push(app);
  await app.migrate();
  return app;
}

function webhook(id: string, origin = "http://localhost"): Request {
  const body = JSON.stringify({ id, type: "invoice.paid" });
  const signed = signWebhook(stripe, { url: `${origin}/webhooks/stripe`, body, secrets: secret });
  return new Request(signed.url, { ...signed, body });
}

const authorization = `Bearer ${token}`;
const requests = (origin: string): Readonly<Record<string, () => Request>> => ({
  webhook: () => webhook("evt_1", origin),
  service: () =>
    new Request(`${origin}/v1/inbox/try-begin`, {
      method: "POST",
      headers: { authorization, "content-type": "application/json" },
      body: '{"key":"a"}',
    }),
  "service's document": () => new Request(`${origin}/v1/openapi.json`),
  page: () => new Request(`${origin}/_oncebox`),
  diagnostics: () =>
    new Request(`${origin}/_oncebox/inbox/stats`, { headers: { authorization: `Bearer tester:${token}` } }),
  dispatch: () => new Request(`${origin}/dispatch`, { method: "POST", headers: { authorization } }),
});

const statuses = async (fetch: (request: Request) => Promise<Response>, origin = "http://localhost") => {
  const all: Record<string, number> = {};
  for (const [name, request] of Object.entries(requests(origin))) all[name] = (await fetch(request())).status;
  return all;
};
const all = (status: number) =>
  Object.fromEntries(Object.keys(requests("http://localhost")).map((name) => [name, status]));

describe("an app's fetch", () => {
  it("ADD-24 serves webhooks, service, page, diagnostics and dispatch, also below a prefix", async () => {
    const app = await running(everything);
    expect(await statuses(app.fetch)).toEqual(all(200));
    expect(await statuses(app.fetch, "https://shop.example/api/hooks")).toEqual(all(200));
  });

  it("ADD-24 has only what the definition has", async () => {
    expect(await statuses((await running({})).fetch)).toEqual(all(404));
    const { fetch } = await running({ sources: everything.sources });
    expect(await statuses(fetch)).toEqual({ ...all(404), webhook: 200 });
    expect((await fetch(new Request("http://localhost/"))).status).toBe(404);
  });

  it("ADD-24 the first part of a path that it knows decides, however the rest looks", async () => {
    const { fetch } = await running(everything);
    const status = async (path: string) => (await fetch(new Request(`http://localhost${path}`))).status;
    expect(await status("/v1/inbox/webhooks/stripe")).toBe(401);
    expect(await status("/v1/inbox/dispatch")).toBe(401);
    expect(await status("/webhooks/dispatch")).toBe(404);
    expect(await status("/webhooks/stripe/dispatch")).toBe(404);
    expect(await status("/dispatch/more")).toBe(404);
  });

  it("ADD-24 dispatches after the answer to a webhook where the host waits for it, one run for many", async () => {
    const handled: string[] = [];
    const [begun, mayEnd] = [gate(), gate()];
    const app = await running({
      ...everything,
      handlers: {
        async "*"({ messageId }) {
          begun.open();
          await mayEnd.promise;
          handled.push(messageId);
        },
      },
    });
    const waiting: Promise<unknown>[] = [];
    const host = { waitUntil: (work: Promise<unknown>) => void waiting.push(work) };
    expect((await app.fetch(webhook("evt_1"), host)).status).toBe(200);
    await begun.promise; // the answer was there before
    for (const id of ["evt_2", "evt_3"]) await app.fetch(webhook(id), host);
    mayEnd.open();
    await Promise.all(waiting);
    expect(handled.sort()).toEqual(["evt_1", "evt_2", "evt_3"]);
    expect(waiting).toHaveLength(3);
    await app.fetch(new Request("http://localhost/webhooks/nobody", { method: "POST" }), host);
    expect(waiting).toHaveLength(3); // it was refused
    await app.start();
    await app.fetch(webhook("evt_4"), host);
    expect(waiting).toHaveLength(3); // the worker handles it
    await expect.poll(() => handled).toContain("evt_4");
  });

  it("ADD-24 the run after the answers has the time of the last webhook, not of the first that waited", async () => {
    const budgets = [1, 2, 3].map((seconds) => timeBudget(seconds * 1_000));
    const [begun, mayEnd] = [gate(), gate()];
    const ran: Budget[] = [];
    const dispatch = async (budget: Budget) => {
      ran.push(budget);
      begun.open();
      await mayEnd.promise;
    };
    const calls = { budgetOf: () => budgets[next++]!, tracked: (work: Promise<unknown>) => work };
    let next = 0;
    const later = afterWebhooks(dispatch, calls as unknown as LimitedCalls, silentLogger);
    const waiting: Promise<unknown>[] = [];
    const host = { waitUntil: (work: Promise<unknown>) => void waiting.push(work) };
    later(host);
    await begun.promise;
    for (let more = 0; more < 2; more++) later(host);
    mayEnd.open();
    await Promise.all(waiting);
    expect(ran).toEqual([budgets[0], budgets[2]]);
  });

  it("ADD-24 a refused request to the diagnostics wakes nobody and throws nothing", async () => {
    const app = await running(everything);
    await app.start();
    for (const tenant of ["", "%00", "%20", "x".repeat(3_000)]) {
      const url = `http://localhost/_oncebox/inbox/dead/replay?tenant=${tenant}`;
      expect((await app.fetch(new Request(url, { method: "POST" }))).status).toBe(401);
    }
  });

  it("ADD-24 is not started again once it was closed", async () => {
    const app = await running(everything);
    await app.close();
    await expect(app.start()).rejects.toThrow("The app is closed.");
  });

  it("ADD-24 a failure after the answer is logged, and rejects nothing", async () => {
    const lines: string[] = [];
    const log = (message: string) => void lines.push(message);
    const app = await running({
      ...everything,
      cron: { tokens: token, timeMs: 500 },
      logger: { debug() {}, info() {}, warn: log, error: log },
      handlers: { "*": () => {} },
    });
    const waiting: Promise<unknown>[] = [];
    await app.fetch(webhook("evt_1"), {
      waitUntil(work) {
        waiting.push(work);
        void app.db.close();
      },
    });
    await Promise.all(waiting);
    expect(lines).toContain("dispatch failed");
  });
});

describe("an app's listener", () => {
  const listening = async (listener: Parameters<typeof createServer>[1]): Promise<string> => {
    const server = createServer(listener);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  };

  it("ADD-24 serves the same from node:http, and 404 for other paths", async () => {
    const app = await running(everything);
    const origin = await listening((incoming, outgoing) => app.listener(incoming, outgoing));
    expect(await statuses(fetch, origin)).toEqual(all(200));
    expect((await fetch(`${origin}/orders`)).status).toBe(404);
  });

  it("ADD-24 as middleware it passes on what is not the app's", async () => {
    const { service: _, ...withoutService } = everything;
    const app = await running(withoutService);
    const server = express();
    server.use(app.listener);
    server.use("/mounted", app.listener);
    server.use(express.json());
    server.use((request, response) => void response.status(299).json({ path: request.originalUrl }));
    server.use(((error, _request, response, _next) => {
      response.status(500).send(error.message);
    }) as express.ErrorRequestHandler);
    const origin = await listening(server);
    const status = async (path: string, init?: RequestInit) => (await fetch(origin + path, init)).status;
    expect(await statuses(fetch, origin)).toEqual({
      ...all(200),
      service: 299,
      "service's document": 299,
    });
    expect(await status("/mounted/dispatch", { headers: { authorization } })).toBe(200);
    expect(await status("/orders/7/dispatch", { headers: { authorization } })).toBe(299);
    for (const path of ["/settings/webhooks/new", "/webhooks/new", "/files/_oncebox/x"])
      expect(await status(path), path).toBe(299);
    expect(await status("/mounted/webhooks/stripe", { method: "POST" })).toBe(415); // without a content type
    expect(await status("/", { method: "POST" })).toBe(299);
  });

  it("ADD-24 says so when a parser has taken the body before it", async () => {
    const app = await running(everything);
    const server = express();
    server.use(express.json());
    server.use(app.listener);
    server.use(((error, _request, response, _next) => {
      response.status(500).send(error.message);
    }) as express.ErrorRequestHandler);
    const response = await fetch(webhook("evt_1", await listening(server)));
    expect(response.status).toBe(500);
    expect(await response.text()).toMatch(/parsed before app\.listener got it.*before express\.json/);
  });

  it("ADD-24 counts wrong tokens of the diagnostics API by the client's address", async () => {
    const app = await running(everything);
    const origin = await listening((incoming, outgoing) => app.listener(incoming, outgoing));
    const from = (localAddress: string): Promise<number> =>
      new Promise((resolve, reject) => {
        const headers = { authorization: "Bearer tester:wrong_token_0123456789" };
        send(`${origin}/_oncebox/inbox/stats`, { headers, localAddress }, (response) => {
          response.resume();
          resolve(response.statusCode ?? 0);
        })
          .on("error", reject)
          .end();
      });
    const guessed: number[] = [];
    for (let guess = 0; guess < 11; guess++) guessed.push(await from("127.0.0.2"));
    expect(guessed.slice(-2)).toEqual([401, 429]);
    expect(await from("127.0.0.3")).toBe(401);
  });
});
