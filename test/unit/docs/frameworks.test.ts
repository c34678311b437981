import { afterAll, beforeAll, expect, it } from "vitest";
import { migrate } from "../../../src/index.js";
import { type OwnDatabase, ownDatabase } from "../../infra/own-database.js";
import { codeBlocks } from "../../support/markdown.js";
import { printedBy } from "../../support/run-programs.js";

let database: OwnDatabase;
beforeAll(async () => {
  database = await ownDatabase();
  await migrate(database.db);
  await database.run("create table orders (id text primary key)");
});
afterAll(() => database?.drop());

/** Sends a webhook through each framework, and places an order twice, of which the second must send nothing. */
const use = `
import type { AddressInfo } from "node:net";
import { signWebhook } from "oncebox/webhooks";
import { stripe } from "oncebox/webhooks/stripe";
import { server as express } from "./express.mjs";
import { server as fastify } from "./fastify.mjs";
import { server as hono } from "./hono.mjs";
import { app, placeOrder } from "./shop.js";

const ended = (call: Promise<unknown>) => call.then(() => "committed", (error: { code?: string }) => error.code);
const server = express.listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));
const ofExpress = \`http://127.0.0.1:\${(server.address() as AddressInfo).port}\`;
const ofFastify = await fastify.listen({ port: 0, host: "127.0.0.1" });

const signed = (id: string, origin: string) => {
  const body = JSON.stringify({ id, type: "charge.succeeded" });
  const { url, ...request } = signWebhook(stripe, { url: \`\${origin}/webhooks/stripe\`, body, secrets: "whsec_new_0123456789" });
  return new Request(url, request);
};
const statuses = [
  await fetch(signed("express", ofExpress)),
  await fetch(signed("fastify", ofFastify)),
  await hono.request(signed("hono", "http://localhost")),
  await app.fetch(signed("next", "http://localhost/api")),
].map(({ status }) => status);
const orders = [await ended(placeOrder("1")), await ended(placeOrder("1"))];

const isDone = async () => (await app.outbox.stats()).counts.Done === 5;
for (let turn = 0; turn < 1_200 && !(await isDone()); turn++) await new Promise((resolve) => setTimeout(resolve, 50));
const sent = (await app.outbox.list()).messages.map(({ topic, payload }) => \`\${topic} \${payload}\`).sort();
await app.close();
console.log(JSON.stringify({ statuses, orders, sent }));
process.exit(0);
`;

it("ADD-24 docs/frameworks.md: its programs receive webhooks in Express, Fastify, Hono and by fetch, and send committed messages", async () => {
  const [shop = "", express = "", fastify = "", hono = ""] = codeBlocks("docs/frameworks.md", "ts");
  const exporting = (program: string) => program.replace("const server =", "export const server =");
  const onOwn = (program: string) =>
    program.replace(/"postgres:\/\/[^"]*"|DATABASE_URL/, JSON.stringify(database.url));
  const printed = await printedBy({
    "shop.ts": onOwn(shop),
    "express.mts": exporting(express),
    "fastify.mts": exporting(fastify),
    "hono.mts": exporting(hono),
    "use.mts": onOwn(use),
  });
  expect(printed).toEqual({
    statuses: [200, 200, 200, 200],
    orders: ["committed", "23505"],
    sent: [...["express", "fastify", "hono", "next"].map((id) => `order.paid ${id}`), "order.placed 1"],
  });
});
