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
import { createOutbox } from "oncebox";
import { openPostgres } from "oncebox/postgres";
import { signWebhook } from "oncebox/webhooks";
import { stripe } from "oncebox/webhooks/stripe";
import { app as express } from "./express.mjs";
import { app as fastify } from "./fastify.mjs";
import { app as hono } from "./hono.mjs";
import { POST } from "./next.mjs";
import { placeOrder, worker } from "./shop.js";

const ended = (call: Promise<void>) => call.then(() => "committed", (error: { code?: string }) => error.code);
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
  await POST(signed("next", "http://localhost")),
].map(({ status }) => status);
const orders = [await ended(placeOrder("1")), await ended(placeOrder("1"))];

const db = openPostgres({ url: DATABASE_URL });
const outbox = createOutbox(db);
for (let turn = 0; turn < 1_200 && (await outbox.list()).messages.length < 5; turn++) {
  worker.wake();
  await new Promise((resolve) => setTimeout(resolve, 50));
}
const sent = (await outbox.list()).messages.map(({ topic, payload }) => \`\${topic} \${payload}\`).sort();
await worker.stop();
console.log(JSON.stringify({ statuses, orders, sent }));
process.exit(0);
`;

it("docs/frameworks.md: its programs receive webhooks in Express, Fastify, Hono and Next, and send committed messages", async () => {
  const [shop = "", express = "", fastify = "", hono = "", next = ""] = codeBlocks(
    "docs/frameworks.md",
    "ts",
  );
  const exporting = (program: string) => program.replace("const app =", "export const app =");
  const onOwn = (program: string) =>
    program.replace(/"postgres:\/\/[^"]*"|DATABASE_URL/, JSON.stringify(database.url));
  const printed = await printedBy({
    "shop.ts": onOwn(shop),
    "express.mts": exporting(express),
    "fastify.mts": exporting(fastify),
    "hono.mts": exporting(hono),
    "next.mts": next,
    "use.mts": onOwn(use),
  });
  expect(printed).toEqual({
    statuses: [200, 200, 200, 200],
    orders: ["committed", "23505"],
    sent: [...["express", "fastify", "hono", "next"].map((id) => `order.paid ${id}`), "order.placed 1"],
  });
});
