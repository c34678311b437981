import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { signWebhook } from "../../src/webhooks/index.js";
import { stripe } from "../../src/webhooks/presets/stripe.js";
import { type OwnDatabase, ownDatabase } from "../infra/own-database.js";
import { run } from "../infra/packed.js";
import { root } from "../support/markdown.js";

interface Shop {
  readonly app: { close(): Promise<void> };
}

/** By their paths: a compiler that has not read the examples' own settings does not find the package by its name. */
const load = (name: string) => import(join(root, "examples/frameworks", `${name}.ts`));
const secret = "whsec_of_the_examples_0123";
type Send = (request: Request) => Promise<Response>;

/** How a request reaches the server of each framework. */
const frameworks: Readonly<Record<string, (shop: Shop) => Promise<Send>>> = {
  async Express(shop) {
    const { expressServer } = await load("express");
    return listening(expressServer(shop));
  },
  async Fastify(shop) {
    const { fastifyServer } = await load("fastify");
    const server = fastifyServer(shop);
    onTestFinished(() => server.close());
    return sendingTo(await server.listen({ host: "127.0.0.1", port: 0 }));
  },
  async Hono(shop) {
    const { honoServer } = await load("hono");
    const server = honoServer(shop);
    return async (request) => server.fetch(request);
  },
};

async function listening(listener: RequestListener): Promise<Send> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return sendingTo(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
}

const sendingTo =
  (address: string): Send =>
  async (request) => {
    const { pathname } = new URL(request.url);
    const { method, headers } = request;
    return fetch(address + pathname, { method, headers, body: await request.arrayBuffer() });
  };

describe("the examples of frameworks", () => {
  let database: OwnDatabase;
  beforeAll(async () => {
    database = await ownDatabase();
    const env = { ONCEBOX_DATABASE_URL: database.url, STRIPE_WEBHOOK_SECRET: secret };
    for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
    vi.stubEnv("ONCEBOX_LOG_LEVEL", "silent");
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    await database?.drop();
  });

  it.each(Object.keys(frameworks))(
    "ADD-24 %s: a signed webhook is handled once, and an order and its message are stored together",
    async (name) => {
      const published: string[] = [];
      const publish = (topic: string, payload: string) => void published.push(`${topic} ${payload}`);
      const { openShop } = await load("shop");
      const shop: Shop = await openShop(publish);
      onTestFinished(() => shop.app.close());
      const send = await frameworks[name]!(shop);
      const id = name.replace(/\W/g, "-");

      const body = JSON.stringify({ id, type: "charge.succeeded" });
      const signed = signWebhook(stripe, { url: "http://localhost/webhooks/stripe", body, secrets: secret });
      const webhook = async (request: Request) => {
        const response = await send(request);
        return { status: response.status, ...((await response.json()) as object) };
      };
      const request = () => new Request(signed.url, signed);
      expect(await webhook(request())).toMatchObject({ status: 200, outcome: "enqueued" });
      expect(await webhook(request())).toMatchObject({ status: 200 });
      const forged = new Request(signed.url, { ...signed, body: body.replace("charge", "refund") });
      expect((await send(forged)).status).toBe(401);

      const order = () =>
        new Request("http://localhost/orders", {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ id }),
        });
      expect((await send(order())).status).toBe(201);
      // The order is there already: its transaction rolls back, and no second message is sent.
      const second = await Promise.resolve(send(order())).catch(() => ({ status: 500 }));
      expect(second.status).toBe(500);

      await expect.poll(() => published.length, { timeout: 20_000 }).toBe(2);
      expect(published.sort()).toEqual([`order.paid ${id}`, `order.placed ${id}`]);
      const [row] = await database.run(`select count(*)::int as orders from orders where id = '${id}'`);
      expect(row).toEqual({ orders: 1 });
    },
  );

  it("type-check", async () => {
    const compiler = join(root, "node_modules/typescript/bin/tsc");
    const { stdout } = await run(process.execPath, [compiler, "-p", join(root, "examples/frameworks")]).catch(
      (error) => error,
    );
    expect(stdout).toBe("");
  });
});
