import { exec } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, describe, expect, inject, it } from "vitest";
import { startLocalRun } from "../../src/adapters/local/local-run.js";
import { omitUndefined } from "../../src/base/defined.js";
import { readEnvironment } from "../../src/config/environment.js";
import { signWebhook } from "../../src/webhooks/index.js";
import { stripe } from "../../src/webhooks/presets/stripe.js";
import { cli, type Dev, startDev } from "../support/start-dev.js";
import { startSecretsManager } from "./aws/secrets-manager-server.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folders: string[] = [];
afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "oncebox-dev-"));
  folders.push(folder);
  return folder;
}

/** `oncebox dev` as a user would start it, in a folder of its own by default. */
const dev = async (args: readonly string[], env: NodeJS.ProcessEnv = {}, cwd?: string): Promise<Dev> =>
  startDev(args, cwd ?? (await newFolder()), env);

const secret = "whsec_b25jZWJveC1sb2NhbC1kZXZlbG9wbWVudA==";
const post = (url: string, id: string, secrets = secret) => {
  const signed = signWebhook(stripe, {
    url: `${url}/webhooks/stripe`,
    body: JSON.stringify({ id, type: "invoice.paid" }),
    secrets,
  });
  return fetch(signed.url, signed as RequestInit);
};
const status = async (url: string) => (await fetch(`${url}/status`)).json();

describe("oncebox dev", () => {
  it("FUN-11 a verify token whose variable is not set is that of the run, as secrets are", async () => {
    const folder = await newFolder();
    const token = '{ from: "env", name: "META_TOKEN" }';
    const source = `{ scheme: "meta", secrets: { from: "env", name: "META_SECRET" }, verifyToken: ${token} }`;
    await writeFile(join(folder, "app.mjs"), `export default { sources: { meta: ${source} } };\n`);
    const { url, output, stop } = await dev(["--app", "app.mjs"], {}, folder);
    const [, shown = ""] = /--secret (whsec_\S+)/.exec(output()) ?? [];
    const asked = async (given: string) => {
      const query = new URLSearchParams({
        "hub.mode": "subscribe",
        "hub.verify_token": given,
        "hub.challenge": "1158201444",
      });
      const answer = await fetch(`${url}/webhooks/meta?${query}`);
      return [answer.status, await answer.text()];
    };
    expect(await asked(shown)).toEqual([200, "1158201444"]);
    expect((await asked("another"))[0]).toBe(401);
    await stop();
  });

  it("FUN-11 runs the example app on SQLite: an example webhook is handled and published, and Ctrl-C stops it", async () => {
    const { url, output, stop } = await dev(["--app", join(root, "functions/app.ts"), "--try"]);
    await expect.poll(output, { timeout: 20_000 }).toMatch(/a webhook arrives: 200 .*"enqueued"/);
    await expect.poll(output, { timeout: 20_000 }).toMatch(/sends it again: 200 .*"(duplicate|done)"/);
    await expect.poll(output, { timeout: 20_000 }).toMatch(/sending the receipt of evt_/);
    const [, shown] = /--secret (whsec_\S+)/.exec(output()) ?? [];
    expect((await post(url, "evt_own", shown)).status).toBe(200);
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

  it("FUN-11 ONCEBOX_DATABASE_URL and ONCEBOX_WEBHOOKS choose another database and other sources without code", async () => {
    const { url, stop } = await dev([], {
      ONCEBOX_DATABASE_URL: inject("postgresUrl"),
      ONCEBOX_WEBHOOKS: '{"stripe": {"scheme": "stripe", "secrets": ["whsec_own_secret_of_tests"]}}',
      ONCEBOX_LOG_LEVEL: "warn",
    });
    const id = `evt_${crypto.randomUUID()}`;
    expect(await (await post(url, id, "whsec_own_secret_of_tests")).json()).toMatchObject({
      outcome: "enqueued",
    });
    expect(await (await post(url, id, "whsec_own_secret_of_tests")).json()).toMatchObject({
      outcome: "duplicate",
    });
    expect(await stop()).toBe(0);
  });

  it("FUN-11 a port in use is reported, and nothing keeps running", async () => {
    const { url, stop } = await dev(["--app", join(root, "functions/app.ts")]);
    const second = dev(["--app", join(root, "functions/app.ts"), "--port", new URL(url).port]);
    await expect(second).rejects.toThrow(/EADDRINUSE.*--port or PORT/);
    expect(await stop()).toBe(0);
  });

  it("FUN-11 the commands it suggests work in a clone of the repository, where nothing is built", async () => {
    const database = `sqlite:${join(await newFolder(), "app.db")}`;
    const args = ["--app", "functions/app.ts", "--database", database, "--try"]; // as npm start does
    const { output, stop } = await dev(args, {}, root);
    await expect.poll(output, { timeout: 20_000 }).toMatch(/a stripe webhook .+\n/);
    const [, command = ""] = /a stripe webhook +(.+)/.exec(output()) ?? [];
    const { stdout } = await promisify(exec)(command, { cwd: root });
    expect(stdout).toMatch(/^200 .*"enqueued"/);
    const { messageId } = JSON.parse(stdout.slice("200 ".length));
    await expect.poll(output, { timeout: 20_000 }).toContain(`sending the receipt of ${messageId}`);
    expect(await stop()).toBe(0);
  });

  it("FUN-11 the commands it suggests send topics that the app handles", async () => {
    const folder = await newFolder();
    const app = join(folder, "app.mts");
    await writeFile(
      app,
      `export default {
        sources: {
          acme: { scheme: "standard", secrets: { from: "env", name: "ACME_SECRET" } },
          github: { scheme: "github", secrets: { from: "env", name: "GITHUB_SECRET" } },
        },
        handlers: () =>
          Object.fromEntries(
            ["acme", "github"].map((name) => [
              name + ".it's.shipped",
              ({ source }) => console.log("handled one of " + source),
            ]),
          ),
      };\n`,
    );
    const { output, stop } = await dev(["--app", app], {}, folder);
    await expect.poll(output, { timeout: 20_000 }).toMatch(/a github webhook .+\n/);
    for (const source of ["acme", "github"]) {
      const [, args = ""] = new RegExp(`a ${source} webhook +.*?( sign .+)`).exec(output()) ?? [];
      const tsx = join(root, "node_modules/tsx/dist/esm/index.mjs");
      const command = `${process.execPath} --import ${tsx} ${join(root, "src/cli/main.ts")}${args}`;
      const { stdout } = await promisify(exec)(command, { cwd: folder });
      expect(stdout).toMatch(/^200 .*"enqueued"/);
      await expect.poll(output, { timeout: 20_000 }).toContain(`handled one of ${source}`);
    }
    expect(await stop()).toBe(0);
  });

  it("FUN-07 FUN-11 runs an app with many tenants, and its status adds up all of them", async () => {
    const folder = await newFolder();
    const app = join(folder, "app.mts");
    const from = (name: string) => JSON.stringify(new URL(`../../src/${name}`, import.meta.url).href);
    await writeFile(
      app,
      `import { multiTenant } from ${from("app/tenants.ts")};
      import { tenantsFromConfiguration } from ${from("app/tenants.ts")};
      const tenants = ["a", "b"].map((id) => ({ id, database: \`sqlite:\${id}.db\` }));
      export default {
        tenants: multiTenant({ discover: tenantsFromConfiguration(tenants) }),
        sources: { stripe: { scheme: "stripe", secrets: ["whsec_own_secret_of_tests"], tenant: "{path}" } },
        handlers: { "stripe.invoice.paid"() {} },
      };\n`,
    );
    const { url, stop } = await dev(["--app", app], {}, folder);
    for (const tenant of ["a", "b"]) {
      const signed = signWebhook(stripe, {
        url: `${url}/webhooks/stripe/${tenant}`,
        body: JSON.stringify({ id: "evt_1", type: "invoice.paid" }),
        secrets: "whsec_own_secret_of_tests",
      });
      expect((await fetch(signed.url, signed as RequestInit)).status).toBe(200);
    }
    await expect
      .poll(() => status(url), { timeout: 20_000 })
      .toMatchObject({ inbox: { counts: { Done: 2, Processing: 0 } } });
    expect(await stop()).toBe(0);
  });

  it("FUN-11 Ctrl-C lets a running handler finish, and its work is kept", async () => {
    const folder = await newFolder();
    const app = join(folder, "app.mts");
    await writeFile(
      app,
      `import { setTimeout as sleep } from "node:timers/promises";
      export default {
        sources: { stripe: { scheme: "stripe", secrets: ["whsec_own_secret_of_tests"] } },
        handlers: {
          async "stripe.invoice.paid"() {
            console.log("handler begins");
            await sleep(1_000);
            console.log("handler ends");
          },
        },
      };\n`,
    );
    const { url, output, stop } = await dev(["--app", app], {}, folder);
    expect((await post(url, "evt_1", "whsec_own_secret_of_tests")).status).toBe(200);
    await expect.poll(output, { timeout: 20_000 }).toMatch(/handler begins/);
    expect(await stop()).toBe(0);
    expect(output()).toMatch(/Stopping[\s\S]*handler ends/);
    const child = cli(["status", "--database", "sqlite:oncebox.db"], folder);
    expect(await text(child.stdout)).toMatch(/inbox .*waiting 0 .*done 1/);
  });

  it("FUN-11 secrets and the database's URL may be in a cloud's store, as in a deployed function", async () => {
    const folder = await newFolder();
    const store = await startSecretsManager({
      database: JSON.stringify({ url: `sqlite:${join(folder, "app.db")}` }),
      stripe: "whsec_own_secret_of_tests",
    });
    store.comeBack();
    const secretOf = (id: string) => ({ from: "aws-secrets-manager", id });
    const { url, stop } = await dev([], {
      AWS_ENDPOINT_URL_SECRETS_MANAGER: store.url,
      AWS_REGION: "eu-central-1",
      AWS_ACCESS_KEY_ID: "test",
      AWS_SECRET_ACCESS_KEY: "test",
      ONCEBOX_DATABASE_URL: JSON.stringify({ ...secretOf("database"), key: "url" }),
      ONCEBOX_WEBHOOKS: JSON.stringify({ stripe: { scheme: "stripe", secrets: secretOf("stripe") } }),
    });
    expect((await post(url, "evt_1", "whsec_own_secret_of_tests")).status).toBe(200);
    expect((await post(url, "evt_2", "whsec_other")).status).toBe(401);
    expect(await stop()).toBe(0);
    await store.close();
  });

  it("ADD-07 a reader that closes the pipe, like head, is not a failure", async () => {
    const child = cli(["migrate", "--print", "--all", "--database", "mssql://nowhere/x"], await newFolder());
    child.stdout.destroy();
    let errors = "";
    child.stderr.on("data", (data) => {
      errors += data;
    });
    expect(await once(child, "close")).toEqual([0, null]);
    expect(errors).toBe("");
  });
});

describe("the local run's server", () => {
  const start = async (stopMs?: number) =>
    startLocalRun(
      { database: "sqlite::memory:", sources: { stripe: { scheme: "stripe", secrets: [secret] } } },
      {
        environment: await readEnvironment({ PORT: "0", ONCEBOX_LOG_LEVEL: "silent" }),
        ...omitUndefined({ stopMs }),
      },
    );

  it("ADD-16 FUN-11 a webhook is handled while the handler of an earlier one still runs", async () => {
    const handled: string[] = [];
    let slowMayEnd = (): void => {};
    const slow = new Promise<void>((resolve) => {
      slowMayEnd = resolve;
    });
    const local = await startLocalRun(
      {
        database: "sqlite::memory:",
        sources: { stripe: { scheme: "stripe", secrets: secret } },
        handlers: {
          "stripe.invoice.paid": async (message) => {
            if (message.messageId === "evt_slow") await slow;
            handled.push(message.messageId);
          },
        },
      },
      // no timer comes by during the test: only wake-ups
      {
        environment: await readEnvironment({ PORT: "0", ONCEBOX_LOG_LEVEL: "silent" }),
        pollMs: 600_000,
      },
    );
    await post(local.url, "evt_slow");
    await expect.poll(() => status(local.url)).toMatchObject({ inbox: { counts: { Processing: 1 } } });
    await post(local.url, "evt_quick");
    await expect.poll(() => handled).toEqual(["evt_quick"]);
    slowMayEnd();
    await local.stop();
    expect(handled).toEqual(["evt_quick", "evt_slow"]);
  });

  it("MSG-21 ADD-16 backs up its SQLite database at once and on a timer, and refuses to where there is no file", async () => {
    const folder = await newFolder();
    const environment = await readEnvironment({ PORT: "0", ONCEBOX_LOG_LEVEL: "silent" });
    const to = join(folder, "backups");
    const local = await startLocalRun(
      { database: `sqlite:${join(folder, "app.db")}` },
      { environment, backup: { to, everyMs: 1 } },
    );
    await expect.poll(async () => (await readdir(to)).length).toBeGreaterThan(1);
    await local.stop();
    await expect(
      startLocalRun({ database: "sqlite::memory:" }, { environment, backup: { to } }),
    ).rejects.toThrow("has no file that could be backed up");
  });

  it("FUN-11 stops although a client never finishes its request", async () => {
    const local = await start(100);
    const socket = connect(Number(new URL(local.url).port), "127.0.0.1");
    const closed = once(socket, "close");
    socket.on("error", () => {}); // it is cut off
    const head = ["POST /webhooks/stripe HTTP/1.1", "Host: x", "Content-Type: application/json"];
    socket.write([...head, "Content-Length: 100", "", "{"].join("\r\n"));
    await expect.poll(() => fetch(`${local.url}/webhooks/stripe`).then(({ status }) => status)).toBe(405); // the server has had its turn on the other one
    await local.stop();
    await closed;
  });

  it.each([
    ["a host that is none", { headers: { host: "a b" } }],
    ["a path that is none", { path: "//" }],
    ["a method that no web request can have", { method: "TRACE" }],
  ])("FUN-01 %s is 400", async (_, options) => {
    const local = await start();
    const sent = request(local.url, { path: "/webhooks/stripe", ...options }).end();
    const [answer] = await once(sent, "response");
    expect(answer.statusCode).toBe(400);
    answer.resume();
    await local.stop();
  });
});
