import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, inject, it } from "vitest";
import { signWebhook } from "../../src/webhooks/index.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folders: string[] = [];
afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));

interface Dev {
  readonly child: ChildProcess;
  readonly url: string;
  output(): string;
  /** Ctrl-C; answers the exit code. */
  stop(): Promise<number | null>;
}

/** `oncebox dev` in a process of its own, as a user would start it. */
async function dev(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Dev> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-dev-"));
  folders.push(folder);
  const main = join(root, "src/cli/main.ts");
  const child = spawn(
    process.execPath,
    ["--import", join(root, "node_modules/tsx/dist/esm/index.mjs"), main, "dev", "--port", "0", ...args],
    {
      cwd: folder,
      env: { ...process.env, ...env },
    },
  );
  let output = "";
  child.stdout.on("data", (data) => {
    output += data;
  });
  child.stderr.on("data", (data) => {
    output += data;
  });
  const ended = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)));
  const url = await Promise.race([
    ended.then(() => Promise.reject(new Error(output))),
    expect
      .poll(() => /listens at (\S+),/.exec(output)?.[1], { timeout: 30_000 })
      .toBeDefined()
      .then(() => /listens at (\S+),/.exec(output)![1]!),
  ]);
  return {
    child,
    url,
    output: () => output,
    stop() {
      child.kill("SIGINT");
      return ended;
    },
  };
}

const secret = "whsec_b25jZWJveC1sb2NhbC1kZXZlbG9wbWVudA==";
const post = (url: string, id: string, secrets = secret) => {
  const signed = signWebhook("stripe", {
    url: `${url}/webhooks/stripe`,
    body: JSON.stringify({ id, type: "payment.received" }),
    secrets,
  });
  return fetch(signed.url, signed as RequestInit);
};
const status = async (url: string) => (await fetch(`${url}/status`)).json();

describe("oncebox dev", () => {
  it("FUN-11 runs the example app on SQLite: an example webhook goes all the way, and Ctrl-C ends it well", async () => {
    const { url, output, stop } = await dev(["--app", join(root, "functions/app.ts"), "--try"]);
    await expect.poll(output, { timeout: 20_000 }).toMatch(/a webhook arrives: 200 .*"enqueued"/);
    await expect.poll(output, { timeout: 20_000 }).toMatch(/sends it again: 200 .*"(duplicate|done)"/);
    await expect.poll(output, { timeout: 20_000 }).toMatch(/sending the receipt of evt_/);
    expect((await post(url, "evt_own")).status).toBe(200);
    expect((await post(url, "evt_bad", "whsec_wrong")).status).toBe(401);
    expect((await fetch(`${url}/webhooks/stripe`)).status).toBe(405);
    expect((await fetch(`${url}/webhooks/nobody`, { method: "POST" })).status).toBe(404);
    await expect
      .poll(() => status(url), { timeout: 20_000 })
      .toMatchObject({
        inbox: { counts: { Done: 2, Processing: 0 } },
        outbox: { counts: { Done: 2, Ready: 0 } },
      });
    expect(await stop()).toBe(0);
    expect(output().split("sending the receipt of")).toHaveLength(3);
  });

  it("FUN-11 ONCEBOX_DATABASE_URL and ONCEBOX_WEBHOOKS choose another database and other sources, without code", async () => {
    const { url, stop } = await dev([], {
      ONCEBOX_DATABASE_URL: inject("postgresUrl"),
      ONCEBOX_WEBHOOKS: '{"stripe": {"scheme": "stripe", "secrets": ["whsec_own"]}}',
      ONCEBOX_LOG_LEVEL: "warn",
    });
    const id = `evt_${crypto.randomUUID()}`;
    expect(await (await post(url, id, "whsec_own")).json()).toMatchObject({ outcome: "enqueued" });
    expect(await (await post(url, id, "whsec_own")).json()).toMatchObject({ outcome: "duplicate" });
    expect(await stop()).toBe(0);
  });

  it("FUN-11 a port that is taken is said, and nothing keeps running", async () => {
    const { url, stop } = await dev(["--app", join(root, "functions/app.ts")]);
    const second = dev(["--app", join(root, "functions/app.ts"), "--port", new URL(url).port]);
    await expect(second).rejects.toThrow(/EADDRINUSE/);
    expect(await stop()).toBe(0);
  });
});
