import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { signWebhook } from "../../../src/webhooks/index.js";
import { stripe } from "../../../src/webhooks/presets/stripe.js";
import { type BundleFolder, bundleTestApp } from "./bundle-folder.js";
import { type FunctionsDatabase, postgresForFunctions } from "./functions-database.js";
import { webhookSecret } from "./http-events.js";

const url = inject("postgresUrl");
const home = fileURLToPath(new URL("serverless-offline", import.meta.url));
const plugin = join(home, "node_modules/serverless-offline");
const osls = fileURLToPath(new URL("../../../node_modules/osls/bin/serverless.js", import.meta.url));

/** Installs serverless-offline at first use. False when it cannot be downloaded. */
async function isInstalled(): Promise<boolean> {
  if (existsSync(plugin)) return true;
  const npm = ["ci", "--prefix", home, "--prefer-offline", "--no-audit", "--no-fund"];
  return promisify(execFile)("npm", npm, { shell: process.platform === "win32" }).then(
    () => true,
    () => false,
  );
}

/** The HTTP API and the invocations of serverless-offline. */
describe.skipIf(!(await isInstalled()))("functions in serverless-offline", () => {
  let bundles: BundleFolder;
  let data: FunctionsDatabase;
  let gateway: ChildProcess;
  let address: string;

  beforeAll(async () => {
    bundles = await bundleTestApp("postgres", ["@aws-sdk"]);
    data = await postgresForFunctions(url);
    const [httpPort, lambdaPort] = [await freePort(), await freePort()];
    address = `http://127.0.0.1:${httpPort}/webhooks/stripe`;
    await symlink(plugin, join(bundles.folder, "node_modules/serverless-offline"), "junction");
    await writeFile(join(bundles.folder, "serverless.yml"), serviceOf(data.env, lambdaPort));
    const ports = ["--httpPort", String(httpPort), "--lambdaPort", String(lambdaPort)];
    gateway = spawn(process.execPath, [osls, "offline", "start", "--noPrependStageInUrl", ...ports], {
      cwd: bundles.folder,
      env: { ...process.env, SLS_TELEMETRY_DISABLED: "1", SLS_NOTIFICATIONS_MODE: "off" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    await untilReady(gateway);
  });
  afterAll(async () => {
    gateway.kill("SIGKILL");
    await once(gateway, "exit");
    await data.close();
    await bundles.remove();
  });

  it("FUN-01 FUN-06 a webhook is received by HTTP, once, and wakes the dispatch function, which handles it", async () => {
    const body = JSON.stringify({ id: "evt_1", type: "invoice.paid", name: "Zoë" });
    const send = async (secrets: string) => {
      const signed = signWebhook(stripe, { url: address, body, secrets });
      const answer = await fetch(address, { method: "POST", headers: signed.headers, body });
      return [answer.status, ((await answer.json()) as { outcome?: string }).outcome];
    };
    expect(await send("whsec_wrong")).toEqual([401, undefined]);
    expect(await send(webhookSecret)).toEqual([200, "enqueued"]);
    await expect.poll(() => data.effects()).toEqual(["evt_1", "receipt of evt_1"]);
    expect(await send(webhookSecret)).toEqual([200, "done"]);
    // The gateway passes all methods to the route. This emulation answers OPTIONS itself.
    for (const method of ["GET", "HEAD"]) expect((await fetch(address, { method })).status, method).toBe(405);
  });
});

/** JSON is YAML. */
function serviceOf(env: Readonly<Record<string, string>>, lambdaPort: number): string {
  const environment = {
    ...env,
    ONCEBOX_DISPATCH_FUNCTION: "smoke-dev-dispatch",
    AWS_ENDPOINT_URL_LAMBDA: `http://127.0.0.1:${lambdaPort}`,
    AWS_ACCESS_KEY_ID: "test",
    AWS_SECRET_ACCESS_KEY: "test",
  };
  return JSON.stringify({
    service: "smoke",
    provider: { name: "aws", runtime: "nodejs20.x", httpApi: { payload: "2.0" }, environment },
    plugins: ["serverless-offline"],
    functions: {
      webhook: {
        handler: "webhook.handler",
        events: [{ httpApi: { path: "/webhooks/{source}", method: "*" } }],
      },
      dispatch: { handler: "dispatch.handler" },
    },
  });
}

async function untilReady(gateway: ChildProcess): Promise<void> {
  let printed = "";
  await new Promise<void>((resolve, reject) => {
    const onData = (chunk: Buffer) => {
      printed += chunk;
      if (printed.includes("Server ready")) resolve();
    };
    gateway.stdout!.on("data", onData);
    gateway.stderr!.on("data", onData);
    gateway.once("exit", () => reject(new Error(`serverless-offline did not start:\n${printed}`)));
  });
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
