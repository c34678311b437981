import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createInbox, createOutbox, type DispatchReport, migrate } from "../../src/index.js";
import { bundleFunctions } from "../../src/packaging/bundle-functions.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { root } from "../support/markdown.js";
import { printedBy, programBehind } from "../support/run-programs.js";
import { bundleTestApp, sqlitePackages } from "./aws/bundle-folder.js";
import { answerOf, stripeHttpEvent, webhookSecret } from "./aws/http-events.js";
import { lambdaFunction } from "./aws/lambda-function.js";
import { startFunctionsHost } from "./azure/functions-host.js";
import { scenarioSecret, stripeWebhook } from "./scenarios.js";

/** README's first program, unchanged, on every host. */
describe("one file for every host", () => {
  const program = programBehind("# oncebox", "README.md");
  let folder: string;
  let file: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(root, "node_modules/.oncebox-one-file-")); // to find the packages
    file = join(folder, "app.ts");
    await writeFile(file, program);
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  /** A database on which the functions work. `done` has the states of all messages in the end. */
  async function database(secret: string) {
    const own = await mkdtemp(join(tmpdir(), "oncebox-one-file-"));
    const db = openSqlite({ file: join(own, "app.db") });
    await migrate(db);
    return {
      env: { ONCEBOX_DATABASE_URL: `sqlite:${join(own, "app.db")}`, STRIPE_WEBHOOK_SECRET: secret },
      async done() {
        const all = [...(await createInbox(db).list()).messages, ...(await createOutbox(db).list()).messages];
        return all.map(({ topic, state, payload }) => [topic, state, JSON.parse(payload).event]);
      },
      async remove() {
        await db.close();
        await rm(own, { recursive: true, force: true });
      },
    };
  }
  const everything = (id: string) => [
    ["stripe.invoice.paid", "Done", undefined],
    ["receipt.send", "Done", id],
  ];

  it("ADD-24 FUN-09 in functions of AWS Lambda, under Amazon's own runtime", async () => {
    const bundles = await bundleTestApp("sqlite", sqlitePackages, file);
    const data = await database(webhookSecret);
    const on = (handler: string) => lambdaFunction({ folder: bundles.folder, handler, env: data.env });
    const [webhook, dispatch] = [on("webhook.handler"), on("dispatch.handler")];
    try {
      const event = stripeHttpEvent({ id: "evt_1", type: "invoice.paid" });
      expect(answerOf(await webhook.invoke(event)).status).toBe(200);
      const schedule = { source: "aws.events", "detail-type": "Scheduled Event", detail: {} };
      await dispatch.invoke<DispatchReport>(schedule);
      expect(await data.done()).toEqual(everything("evt_1"));
    } finally {
      await Promise.all([webhook.close(), dispatch.close()]);
      await Promise.all([bundles.remove(), data.remove()]);
    }
  });

  it("ADD-24 FUN-09 in a function app for Azure", async () => {
    const outFolder = await mkdtemp(join(tmpdir(), "oncebox-one-file-"));
    await bundleFunctions({ cloud: "azure", database: "sqlite", app: file, outFolder });
    await symlink(join(root, "node_modules"), join(outFolder, "node_modules")); // the driver
    const data = await database(scenarioSecret);
    const host = await startFunctionsHost(outFolder, data.env, 60_000);
    try {
      expect((await host.webhook(stripeWebhook("evt_2"))).status).toBe(200);
      await host.run("dispatch");
      expect(await data.done()).toEqual(everything("evt_2"));
    } finally {
      await host.stop();
      await Promise.all([rm(outFolder, { recursive: true, force: true }), data.remove()]);
    }
  });

  const opening = `
import { createApp } from "oncebox";
import { signWebhook } from "oncebox/webhooks";
import { stripe } from "oncebox/webhooks/stripe";
import definition from "./app.mjs";

process.env.ONCEBOX_DATABASE_URL = "sqlite:app.db";
process.env.STRIPE_WEBHOOK_SECRET = "whsec_test_secret_of_tests";
process.env.ONCEBOX_LOG_LEVEL = "error";
const webhook = (origin: string) => {
  const body = '{"id":"evt_3","type":"invoice.paid"}';
  const { url, ...signed } = signWebhook(stripe, { url: origin + "/webhooks/stripe", body, secrets: "whsec_test_secret_of_tests" });
  return new Request(url, signed);
};
`;
  const closing = `
while ((await app.outbox.list({ state: "Done" })).messages.length < 1) await new Promise((wake) => setTimeout(wake, 10));
const { messages: [sent] } = await app.outbox.list();
await app.close();
console.log(JSON.stringify({ answers, topic: sent?.topic, payload: sent?.payload }));
process.exit(0);
`;

  it("ADD-24 in an Express server, started, without a poll's delay", async () => {
    const use = `${opening}
import type { AddressInfo } from "node:net";
import express from "express";
const app = await createApp(definition);
await app.migrate();
await app.start();
const server = express().use(app.listener).listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));
const answers = [(await fetch(webhook(\`http://127.0.0.1:\${(server.address() as AddressInfo).port}\`))).status];
${closing}`;
    expect(await printedBy({ "app.mts": program, "use.mts": use })).toEqual({
      answers: [200],
      topic: "receipt.send",
      payload: '{"event":"evt_3"}',
    });
  });

  it("ADD-24 on a host that has nothing but a cron", async () => {
    const use = `${opening}
const app = await createApp({ ...definition, cron: { tokens: "token_of_the_cron_0123456789" } });
await app.migrate();
const call = (token: string) =>
  app.fetch(new Request("http://localhost/dispatch", { method: "POST", headers: { authorization: \`Bearer \${token}\` } }));
const answers: number[] = [(await app.fetch(webhook("http://localhost"))).status];
for (const token of ["wrong", "token_of_the_cron_0123456789"]) answers.push((await call(token)).status);
${closing}`;
    expect(await printedBy({ "app.mts": program, "use.mts": use })).toEqual({
      answers: [200, 401, 200],
      topic: "receipt.send",
      payload: '{"event":"evt_3"}',
    });
  });
});
