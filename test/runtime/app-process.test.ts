import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { createInbox } from "../../src/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { signWebhook } from "../../src/webhooks/index.js";
import { stripe } from "../../src/webhooks/presets/stripe.js";

const secret = "whsec_test_secret_of_tests";
const child = fileURLToPath(new URL("app-process-child.ts", import.meta.url));

/** The app of app-process-child.ts, which has begun to handle a webhook. */
async function handling(...args: readonly string[]) {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-process-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "app.db");
  const app = spawn(process.execPath, ["--no-warnings", "--import", "tsx", child, ...args], {
    env: { ...process.env, ONCEBOX_DATABASE_URL: `sqlite:${file}`, STRIPE_SECRET: secret },
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void app.kill("SIGKILL"));
  let output = "";
  app.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  await expect.poll(() => output).toMatch(/^port \d+$/m);
  const [, port] = /^port (\d+)$/m.exec(output)!;
  const body = JSON.stringify({ id: "evt_1", type: "invoice.paid" });
  const signed = signWebhook(stripe, {
    url: `http://127.0.0.1:${port}/webhooks/stripe`,
    body,
    secrets: secret,
  });
  expect((await fetch(signed.url, { ...signed, body })).status).toBe(200);
  await expect.poll(() => output).toContain("begins evt_1");
  return { app, file, exited: once(app, "exit"), output: () => output };
}

async function doneIn(file: string): Promise<number> {
  const db = openSqlite({ file });
  const { counts } = await createInbox(db).stats();
  await db.close();
  return counts.Done;
}

describe("an app in a process of its own", () => {
  it.each(["SIGTERM", "SIGINT"] as const)(
    "ADD-24 reads its environment, and at %s finishes its handlers before the signal ends it",
    async (signal) => {
      const { app, file, exited, output } = await handling();
      app.kill(signal);
      expect(await exited).toEqual([null, signal]);
      expect(output()).toContain("ends evt_1");
      expect(await doneIn(file)).toBe(1);
    },
  );

  it("ADD-24 of two apps in one process, the one that stops last lets the signal end it", async () => {
    const { app, file, exited, output } = await handling("two");
    app.kill("SIGTERM");
    expect(await exited).toEqual([null, "SIGTERM"]);
    expect(output()).toContain("ends evt_1");
    expect(await doneIn(file)).toBe(1);
  });

  it("ADD-24 leaves the end of the process to other code that listens for the signal", async () => {
    const { app, file, exited, output } = await handling("listens");
    app.kill("SIGTERM");
    expect(await exited).toEqual([7, null]);
    expect(output()).toMatch(/heard[\s\S]*ends evt_1/);
    expect(await doneIn(file)).toBe(1);
  });
});
