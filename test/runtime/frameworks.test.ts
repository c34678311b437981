import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { signWebhook } from "../../src/webhooks/index.js";
import { stripe } from "../../src/webhooks/presets/stripe.js";
import { type OwnDatabase, ownDatabase } from "../infra/own-database.js";
import { run } from "../infra/packed.js";
import { root } from "../support/markdown.js";

interface Orders {
  close(): Promise<void>;
}

/** By their paths: a compiler that has not read the examples' own settings does not find the package by its name. */
const load = (name: string) => import(join(root, "examples/frameworks", `${name}.ts`));
const secret = "whsec_of_the_examples_0123";
type Send = (request: Request) => Promise<Response>;

/** How a request reaches the app of each framework. */
const frameworks: Readonly<Record<string, (orders: Orders) => Promise<Send>>> = {
  async Express(orders) {
    const { expressApp } = await load("express");
    return listening(expressApp(orders));
  },
  async Fastify(orders) {
    const { fastifyApp } = await load("fastify");
    const app = fastifyApp(orders);
    onTestFinished(() => app.close());
    return sendingTo(await app.listen({ host: "127.0.0.1", port: 0 }));
  },
  async Hono(orders) {
    const { honoApp } = await load("hono");
    const app = honoApp(orders);
    return async (request) => app.fetch(request);
  },
  async "Next's route handlers"(orders) {
    const { orderHandlers, webhookHandlers } = await load("next");
    const opened = async () => orders;
    const isOrder = ({ url }: Request) => new URL(url).pathname === "/orders";
    return (request) => (isOrder(request) ? orderHandlers(opened) : webhookHandlers(opened)).POST(request);
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
  });
  afterAll(() => database?.drop());

  it.each(Object.keys(frameworks))(
    "%s: a signed webhook is handled once, and an order and its message are stored together",
    async (name) => {
      const published: string[] = [];
      const publish = (topic: string, payload: string) => void published.push(`${topic} ${payload}`);
      const { openOrders } = await load("orders");
      const orders: Orders = await openOrders({ url: database.url, secret, publish });
      onTestFinished(() => orders.close());
      const send = await frameworks[name]!(orders);
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
