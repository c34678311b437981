import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createMessageTables } from "../../src/app/prepare-databases.js";
import { migrate } from "../../src/index.js";
import { answerOf, httpEvent, stripeHttpEvent, webhookSecret } from "../runtime/aws/http-events.js";
import { lambdaFunction } from "../runtime/aws/lambda-function.js";
import { startFunctionsHost } from "../runtime/azure/functions-host.js";
import { stripeWebhook } from "../runtime/scenarios.js";
import { operatorToken, shopSecret } from "./messaging-walk.js";
import { type OwnDatabase, ownDatabase } from "./own-database.js";
import { type PackedPackage, packedPackage, run, unpacked } from "./packed.js";

const token = "a-token-of-the-service";
/** Of functions/service.ts. Nobody is at the address, and nothing is sent. */
const messaging = {
  SHOP_ADDRESS: "http://127.0.0.1:9/_rf/receive",
  SHOP_SECRET: shopSecret,
  MESSAGING_TOKENS: operatorToken,
};
const tryBegin = (key: string) =>
  httpEvent({
    rawPath: "/v1/inbox/try-begin",
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify({ key }),
  });

/** Installs the packages of the app's package.json into its folder. Returns a function that runs one of its scripts. */
export type Install = (
  folder: string,
  packed: PackedPackage,
) => Promise<(script: string) => Promise<unknown>>;

export const describeInit = (name: string, install: Install) =>
  describe(name, () => {
    let parent: string;
    let packed: PackedPackage;
    let database: OwnDatabase;
    const folders: string[] = [];

    beforeAll(async () => {
      [packed, database] = await Promise.all([packedPackage(), ownDatabase()]);
      await migrate(database.db);
      await createMessageTables(database.db, {});
      parent = await mkdtemp(join(tmpdir(), "oncebox-init-"));
      folders.push(parent);
    });
    afterAll(async () => {
      await Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true })));
      await Promise.all([packed?.remove(), database?.drop()]);
    });

    /** Follows the documented steps, with the package from this folder instead of the registry's. */
    async function built(cloud: "aws" | "azure", ...args: readonly string[]): Promise<string> {
      await packed.cli(["init", cloud, cloud, ...args], parent);
      const folder = join(parent, cloud);
      const run = await install(folder, packed);
      await run("typecheck");
      await run(`package:${cloud}`);
      return folder;
    }

    it("MSG-05 FUN-09 FUN-10 SVC-03 for AWS, with the inbox service and messages: it builds, and its functions run under Amazon's runtime", async () => {
      const folder = await built("aws", "--service", "--messaging");
      const archives = (await readdir(join(folder, "build/aws"))).filter((name) => name.endsWith(".zip"));
      const choices = ["service", "messaging", "migrate"].map((name) => `infra/aws/${name}-true.yml`);
      const files = ["serverless.yml", ...choices];
      const templates = files.map((name) => readFile(join(folder, name), "utf8"));
      const named = [
        ...(await Promise.all(templates)).join("\n").matchAll(/artifact: build\/aws\/(\S+)/g),
      ].map(([, name]) => name);
      expect(archives.sort()).toEqual(named.sort());

      const env = { ONCEBOX_DATABASE_URL: database.url, STRIPE_WEBHOOK_SECRET: webhookSecret };
      const invoke = async (name: string, event: unknown, more: Readonly<Record<string, string>> = {}) => {
        const unzipped = await unpacked(join(folder, "build/aws", `${name}.zip`));
        folders.push(unzipped);
        const made = lambdaFunction({
          folder: unzipped,
          handler: `${name}.handler`,
          env: { ...env, ...more },
        });
        try {
          return await made.invoke(event);
        } finally {
          await made.close();
        }
      };
      const answer = await invoke("webhook", stripeHttpEvent({ id: "evt_aws" }));
      expect(answerOf(answer as APIGatewayProxyStructuredResultV2)).toEqual({
        status: 200,
        outcome: "enqueued",
      });
      expect(await invoke("dispatch", {})).toMatchObject({ inbox: { acked: 1 }, outbox: { acked: 1 } });
      expect(await invoke("consume", { Records: [] })).toEqual({ batchItemFailures: [] });
      // As in the stack, no other function has the tokens.
      const begun = await invoke("inbox-service", tryBegin("aws"), { INBOX_SERVICE_TOKENS: token });
      expect(JSON.parse((begun as { body: string }).body)).toMatchObject({ status: "Acquired" });
      expect(await invoke("reap", {})).toMatchObject({ inbox: { done: 0 } });
      expect(await invoke("cleanup", {})).toMatchObject({ inbox: { done: 0 } });
      const asked = httpEvent({
        method: "GET",
        rawPath: "/_rf/outbox/stats",
        headers: { authorization: `Bearer ${operatorToken}` },
      });
      const stats = await invoke("message-receive", asked, messaging);
      expect(JSON.parse((stats as { body: string }).body)).toMatchObject({ counts: { Pending: 0 } });
      expect(await invoke("message-dispatch", {}, messaging)).toMatchObject({ stopped: "drained" });
      expect(await invoke("message-maintain", {}, messaging)).toMatchObject({ inbox: { done: 0 } });
    });

    it("FUN-10 FUN-11 npm start runs the app, which is TypeScript, on this Node and on SQLite", async () => {
      await packed.cli(["init", "aws", "started"], parent);
      const folder = join(parent, "started");
      await install(folder, packed);
      await expectStart(folder, process.execPath, (address, printed) =>
        followReadme(folder, address, printed),
      );
    });

    it("MSG-05 FUN-09 FUN-10 SVC-03 for Azure, with the inbox service and messages: it builds, and the host runs its function app", async () => {
      const folder = await built("azure", "--database", "postgres", "--service", "--messaging");
      const app = await unpacked(join(folder, "build/azure/app.zip"));
      folders.push(app);
      const env = {
        ONCEBOX_DATABASE_URL: database.url,
        STRIPE_WEBHOOK_SECRET: "whsec_scenarios_secret_of_tests",
        INBOX_SERVICE_TOKENS: token,
        ...messaging,
      };
      const host = await startFunctionsHost(app, env, 60_000);
      try {
        expect((await host.webhook(stripeWebhook("evt_azure"))).status).toBe(200);
        const begun = await fetch(`${host.url}/v1/inbox/try-begin`, {
          method: "POST",
          headers: { authorization: `Bearer ${token}` },
          body: JSON.stringify({ key: "azure" }),
        });
        expect(await begun.json()).toMatchObject({ status: "Acquired" });
        expect(await host.run("dispatch")).toMatchObject({ inbox: { acked: 1 }, outbox: { acked: 1 } });
        expect(await host.run("reap")).toMatchObject({ inbox: { done: 0 } });
        expect(await host.run("cleanup")).toMatchObject({ inbox: { done: 0 } });
        const headers = { authorization: `Bearer ${operatorToken}` };
        const stats = await fetch(`${host.url}/_rf/outbox/stats`, { headers });
        expect(await stats.json()).toMatchObject({ counts: { Pending: 0 } });
        expect(await host.run("dispatchMessages")).toMatchObject({ stopped: "drained" });
        expect(await host.run("maintainMessages")).toMatchObject({ inbox: { done: 0 } });
      } finally {
        await host.stop();
      }
      await followLocalSteps(folder);
    });

    /** What the app's README says to do in a second terminal: a webhook that is handled, and a look at the queues. */
    async function followReadme(folder: string, address: string, printed: () => string): Promise<void> {
      const readme = await readFile(join(folder, "README.md"), "utf8");
      const commands = [...readme.matchAll(/^npx oncebox ((?:sign|status)\b[^#\n]*)/gm)].map(([, args]) =>
        args!.trim().split(" "),
      );
      const [sign, status] = commands;
      expect(commands.map(([name]) => name)).toEqual(["sign", "status"]);
      const main = join(folder, "node_modules/oncebox/dist/cli/main.js");
      const oncebox = async (...args: readonly string[]) =>
        (await run(process.execPath, [main, ...args], { cwd: folder })).stdout;
      // The documented port may be taken on this machine.
      const sent = await oncebox(...sign!, "--url", `${address}/webhooks/stripe`);
      const [, messageId] = /^200 .*"outcome":"enqueued","messageId":"([^"]+)"/m.exec(sent)!;
      await expect.poll(printed).toContain(`sending the receipt of ${messageId}`);
      await expect
        .poll(() => oncebox(...status!))
        .toMatch(/inbox +waiting 0 .*done 2 {2}dead 0.*\noutbox +waiting 0 .*done 2 {2}dead 0/);
    }

    /** As docs/azure.md says, in the app's own folder. Without Azurite, which has one port for all that run on a machine. */
    async function followLocalSteps(folder: string): Promise<void> {
      const { Values } = JSON.parse(await readFile(join(folder, "local.settings.json.example"), "utf8"));
      const { AzureWebJobsStorage: _, ONCEBOX_WAKE_QUEUE: _queue, ...env } = Values;
      const settings = { ...env, ONCEBOX_DATABASE_URL: database.url, INBOX_SERVICE_TOKENS: token };
      const host = await startFunctionsHost(folder, settings, 60_000);
      try {
        const url = `${host.url}/webhooks/stripe`;
        const sign = ["sign", "stripe", "--secret", env.STRIPE_WEBHOOK_SECRET, "--url", url, "--send"];
        expect(await packed.cli(sign, folder)).toMatchObject({ stdout: expect.stringMatching(/^200 /) });
        expect(await host.run("dispatch")).toMatchObject({ inbox: { acked: 1 }, outbox: { acked: 1 } });
      } finally {
        await host.stop();
      }
    }
  });

/** Runs what `npm start` runs, on this Node, until the example's webhook is handled. Ctrl-C ends it. */
export async function expectStart(
  folder: string,
  node: string,
  use: (address: string, printed: () => string) => Promise<void> = async () => {},
): Promise<void> {
  const { scripts } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const [program, ...args] = scripts.start.split(" ");
  expect(program).toBe("oncebox");
  const main = join(folder, "node_modules/oncebox/dist/cli/main.js");
  const app = spawn(node, [main, ...args, "--port", "0"], { cwd: folder });
  let printed = "";
  for (const stream of [app.stdout, app.stderr])
    stream.on("data", (chunk: Buffer) => {
      printed += chunk;
    });
  const ended = once(app, "exit");
  await expect.poll(() => printed).toMatch(/sending the receipt of evt_/);
  await use(/http:\/\/127\.0\.0\.1:\d+/.exec(printed)![0], () => printed);
  app.kill("SIGINT");
  expect(await ended).toEqual([0, null]);
  expect(printed).not.toMatch(/ExperimentalWarning/);
}
