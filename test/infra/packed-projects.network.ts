import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createOutbox, migrate } from "../../src/index.js";
import { signWebhook } from "../../src/webhooks/index.js";
import { stripe } from "../../src/webhooks/presets/stripe.js";
import { startFunctionsHost } from "../runtime/azure/functions-host.js";
import { scenarioSecret, stripeWebhook } from "../runtime/scenarios.js";
import { root } from "../support/markdown.js";
import { programBehind } from "../support/run-programs.js";
import { byImport, byRequire, ended, endToEnd, printing, typedEndToEnd } from "./message-program.js";
import { ownDatabase } from "./own-database.js";
import { npm, type PackedPackage, packedPackage, run } from "./packed.js";

/** Node 20 has no SQLite of its own. */
const sqlite = "@photostructure/sqlite@1";
const exporting = `${byImport}\n${typedEndToEnd.replace("async function", "export async function")}\n`;
const manifest = (more: object = {}) => JSON.stringify({ name: "user-project", private: true, ...more });

describe("projects that install the packed package", () => {
  let packed: PackedPackage;
  let parent: string;

  beforeAll(async () => {
    packed = await packedPackage();
    parent = await mkdtemp(join(tmpdir(), "oncebox-projects-"));
  }, 180_000);
  afterAll(async () => {
    await rm(parent, { recursive: true, force: true });
    await packed?.remove();
  });

  /** A folder with these files, and the package installed as a user installs it. */
  async function project(name: string, files: Readonly<Record<string, string>>, packages: readonly string[]) {
    const folder = join(parent, name);
    for (const [file, text] of Object.entries(files)) {
      await mkdir(dirname(join(folder, file)), { recursive: true });
      await writeFile(join(folder, file), text);
    }
    await npm(["install", packed.tarball, ...packages], folder);
    return {
      folder,
      node: async (file: string) => (await run(process.execPath, [file], { cwd: folder })).stdout.trim(),
      bin: (command: string, ...args: string[]) =>
        run(join(folder, "node_modules/.bin", command), args, { cwd: folder, shell: isWindows }).catch(
          ({ stdout, stderr }) => ({ stdout: `failed: ${stdout}${stderr}`, stderr }),
        ),
    };
  }

  it("ECMAScript modules", async () => {
    const files = { "package.json": manifest({ type: "module" }), "app.js": printing(byImport) };
    const { node } = await project("esm", files, [sqlite]);
    expect(await node("app.js")).toBe(ended);
  });

  it("CommonJS", async () => {
    const files = { "package.json": manifest(), "app.js": printing(byRequire) };
    const { node } = await project("commonjs", files, [sqlite]);
    expect(await node("app.js")).toBe(ended);
  });

  it("Jest 29, with JavaScript that requires it and TypeScript that imports it", async () => {
    const expectation = `test("a message", async () => expect(await endToEnd()).toBe(${JSON.stringify(ended)}));`;
    const files = {
      "package.json": manifest(),
      "jest.config.js": `module.exports = { transform: { "\\\\.ts$": "ts-jest" } };`,
      "tsconfig.json": JSON.stringify({ compilerOptions: { ...strict, module: "commonjs" } }),
      "plain.test.js": `${byRequire}\n${endToEnd}\n${expectation}`,
      "typed.test.ts": `${byImport}\n${typedEndToEnd}\n${expectation}`,
    };
    const packages = ["jest@29", "ts-jest@29", "typescript@5", "@types/jest@29", "@types/node@20", sqlite];
    const { bin } = await project("jest", files, packages);
    const { stdout, stderr } = await bin("jest");
    expect(stdout).toBe("");
    expect(stderr).toContain("2 passed");
    expect(stderr).not.toContain("did not exit");
  });

  it.each(["commonjs", "module"])("TypeScript with module node16, type %s", async (type) => {
    const files = {
      "package.json": manifest({ type }),
      "tsconfig.json": JSON.stringify({ compilerOptions: { ...strict, module: "node16" } }),
      "message.ts": exporting,
      "app.ts": `import { endToEnd } from "./message.js";\nendToEnd().then(console.log);\n`,
    };
    const { bin, node } = await project(`node16-${type}`, files, ["typescript@5", "@types/node@20", sqlite]);
    expect((await bin("tsc", "-p", ".")).stdout).toBe("");
    expect(await node("app.js")).toBe(ended);
  });

  it("a bundle by esbuild, as CommonJS", async () => {
    const files = { "package.json": manifest(), "app.js": printing(byImport) };
    const { bin, folder, node } = await project("esbuild", files, ["esbuild@0.24", sqlite]);
    const external = "--external:@photostructure/sqlite";
    await bin("esbuild", "app.js", "--bundle", "--platform=node", "--format=cjs", external, "--outdir=out");
    expect(await readFile(join(folder, "out/app.js"), "utf8")).not.toContain('require("oncebox');
    expect(await node("out/app.js")).toBe(ended);
  });

  it("examples/nest, with the settings of `nest new` and with those of Nest 10", async () => {
    const folder = join(parent, "nest");
    await cp(join(root, "examples/nest"), folder, { recursive: true });
    const { bin } = await project("nest", {}, []);
    for (const [module, target] of Object.entries(nestModules)) {
      const compilerOptions = { ...nestDefaults, ...target };
      await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["src"] }));
      expect([module, (await bin("tsc", "-p", ".")).stdout]).toEqual([module, ""]);
      expect(await nestRun(folder)).toEqual({ statuses: [200, 200, 201, 500], published });
    }
  });

  /** examples/next with these files instead of its own, installed once and built. */
  async function nextProject(files: Readonly<Record<string, string>> = {}): Promise<string> {
    const folder = join(parent, "next");
    await cp(join(root, "examples/next"), folder, { recursive: true });
    const { bin } = await project("next", files, []);
    const built = await bin("next", "build");
    expect(built.stdout).not.toMatch(/^failed/);
    return folder;
  }

  it("ADD-24 README's first program, unchanged, in Next's own server: its webhook is handled after the answer", async () => {
    const folder = await nextProject({
      "readme.ts": programBehind("# oncebox", "README.md"),
      "shop.ts": `import { createApp } from "oncebox";
import definition from "./readme";
let opened: ReturnType<typeof createApp> | undefined;
export const app = () => (opened ??= createApp(definition as never));
export const placeOrder = async (_id: string): Promise<void> => {};
`,
    });
    const event = { id: "evt_1", type: "invoice.paid" };
    const answers = await inNext(folder, async ({ address, secret, printed }) => {
      const body = JSON.stringify(event);
      const signed = signWebhook(stripe, { url: `${address}/api/webhooks/stripe`, body, secrets: secret });
      const send = async (text: string) => (await fetch(signed.url, { ...signed, body: text })).status;
      const statuses = [await send(body), await send(body), await send("{}")];
      await expect.poll(() => printed("sending a receipt for ")).toEqual([event.id]); // without a cron
      return statuses;
    });
    expect(answers).toEqual([200, 200, 401]);
  });

  it("ADD-24 examples/next, in Next's own server: a webhook is handled after its answer, and a cron dispatches", async () => {
    expect(await nextRun(await nextProject())).toEqual({
      statuses: { webhook: [200, 200, 401], order: [201, 500], cron: [401, 200, 200], page: 200 },
      published: ["order.paid evt_1", "order.placed 1", "order.placed by SQL"],
    });
  });

  it("an Azure function app in CommonJS, whose node_modules are deployed with it", async () => {
    const files = {
      "package.json": manifest({ main: "main.js" }),
      "host.json": JSON.stringify({ version: "2.0", extensions: { http: { routePrefix: "" } } }),
      "main.js": azureApp,
    };
    const { folder } = await project("azure", files, ["@azure/functions@4", "pg@8"]);
    const database = await ownDatabase();
    await migrate(database.db);
    const env = { ONCEBOX_DATABASE_URL: database.url, STRIPE_WEBHOOK_SECRET: scenarioSecret };
    const host = await startFunctionsHost(folder, env, 60_000);
    try {
      expect((await host.webhook(stripeWebhook("evt_1"))).status).toBe(200);
      expect(await host.run("dispatch")).toMatchObject({ inbox: { acked: 1 }, outbox: { acked: 1 } });
    } finally {
      await host.stop();
      await database.drop();
    }
  });

  it("beside mssql 11, esbuild 0.24 and vitest 3, of which npm refuses none", async () => {
    const files = { "package.json": manifest({ type: "module" }), "app.js": printing(byImport) };
    const older = ["mssql@11", "esbuild@0.24", "vitest@3"];
    const { folder, node } = await project("older", files, [...older, sqlite]);
    expect(await node("app.js")).toBe(ended);
    for (const one of older) {
      const [name, version] = one.split("@") as [string, string];
      const installed = await readFile(join(folder, "node_modules", name, "package.json"), "utf8");
      expect(JSON.parse(installed).version).toMatch(new RegExp(`^${version.replace(".", "\\.")}\\.`));
    }
  });
});

const azureApp = `
const { registerFunctions } = require("oncebox/azure");
const { defineApp } = require("oncebox");
registerFunctions(defineApp({
  sources: { stripe: { scheme: "stripe", secrets: { from: "env", name: "STRIPE_WEBHOOK_SECRET" } } },
  handlers: ({ outbox }) => ({
    "stripe.invoice.paid": {
      transactional: true,
      handle: ({ payload }, { tx }) => outbox.enqueue({ topic: "receipt.send", payload }, { tx }),
    },
  }),
  publishers: { "receipt.send": () => {} },
}));
`;

const published = ["order.paid evt_1", "order.placed 1"];

/** What `nest new` writes, and what it wrote before version 11. */
const nestModules = {
  nodenext: { module: "nodenext", moduleResolution: "nodenext", isolatedModules: true, target: "ES2023" },
  commonjs: { module: "commonjs", target: "ES2021" },
};
const nestDefaults = {
  declaration: true,
  removeComments: true,
  emitDecoratorMetadata: true,
  experimentalDecorators: true,
  allowSyntheticDefaultImports: true,
  sourceMap: true,
  outDir: "./dist",
  skipLibCheck: true,
  strictNullChecks: true,
};

/** A webhook twice, and an order twice: the second order fails, and must send nothing. */
async function nestRun(folder: string) {
  const database = await ownDatabase();
  const secret = "whsec_of_the_nest_example";
  const env = { ...process.env, DATABASE_URL: database.url, STRIPE_WEBHOOK_SECRET: secret, PORT: "0" };
  const app = spawn(process.execPath, ["dist/main.js"], { cwd: folder, env });
  const lines: string[] = [];
  createInterface(app.stdout).on("line", (line) => lines.push(line));
  const said = (start: string) =>
    lines.filter((line) => line.startsWith(start)).map((line) => line.slice(start.length));
  try {
    await expect.poll(() => said("listening "), { timeout: 60_000 }).toHaveLength(1);
    const [address] = said("listening ");
    const body = JSON.stringify({ id: "evt_1", type: "charge.succeeded" });
    const webhook = signWebhook(stripe, { url: `${address}/webhooks/stripe`, body, secrets: secret });
    const headers = { "content-type": "application/json" };
    const order = { url: `${address}/orders`, method: "POST", headers, body: '{"id":"1"}' };
    const statuses: number[] = [];
    for (const request of [webhook, webhook, order, order])
      statuses.push((await fetch(request.url, request)).status);
    await expect.poll(() => said("published ")).toHaveLength(2);
    return { statuses, published: said("published ").sort() };
  } finally {
    app.kill("SIGTERM");
    await once(app, "exit");
    await database.drop();
  }
}

interface NextServer {
  readonly address: string;
  readonly database: Awaited<ReturnType<typeof ownDatabase>>;
  /** Of webhooks, and the token of the cron. */
  readonly secret: string;
  readonly cronSecret: string;
  /** What stands behind this in the lines that the server has printed. */
  printed(beginning: string): readonly string[];
}

/** Works with a server that `next start` runs, on a database of its own. */
async function inNext<T>(folder: string, work: (server: NextServer) => Promise<T>): Promise<T> {
  const database = await ownDatabase();
  await migrate(database.db);
  const secret = "whsec_of_the_next_example";
  const cronSecret = "cron_secret_of_the_next_example";
  const env = {
    ...process.env,
    ONCEBOX_DATABASE_URL: database.url,
    ONCEBOX_LOG_LEVEL: "error",
    STRIPE_WEBHOOK_SECRET: secret,
    CRON_SECRET: cronSecret,
  };
  const next = join(folder, "node_modules/next/dist/bin/next");
  const server = spawn(process.execPath, [next, "start", "--hostname", "127.0.0.1", "--port", "0"], {
    cwd: folder,
    env,
  });
  const lines: string[] = [];
  createInterface(server.stdout).on("line", (line) => lines.push(line));
  const printed = (beginning: string) =>
    lines.filter((line) => line.startsWith(beginning)).map((line) => line.slice(beginning.length));
  const addresses = () => lines.flatMap((line) => /http:\/\/127\.0\.0\.1:\d+/.exec(line)?.[0] ?? []);
  try {
    await expect.poll(() => addresses().length, { timeout: 60_000 }).toBeGreaterThan(0);
    return await work({ address: addresses()[0]!, database, secret, cronSecret, printed });
  } finally {
    server.kill("SIGTERM");
    await once(server, "exit");
    await database.drop();
  }
}

/** A webhook, an order and the calls of a cron. */
const nextRun = (folder: string) =>
  inNext(folder, async ({ address, database, secret, cronSecret, printed }) => {
    await database.run("create table orders (id text primary key)");
    const published = () => printed("published ");
    const status = async (path: string, init?: RequestInit) => (await fetch(address + path, init)).status;
    const body = JSON.stringify({ id: "evt_1", type: "charge.succeeded" });
    const signed = signWebhook(stripe, { url: `${address}/api/webhooks/stripe`, body, secrets: secret });
    const webhook = () => status("/api/webhooks/stripe", { ...signed, body });
    const order = () => status("/orders", { method: "POST", body: '{"id":"1"}' });
    const cron = (method: string, token: string) =>
      status("/api/dispatch", { method, headers: { authorization: `Bearer ${token}` } });
    const statuses = {
      webhook: [
        await webhook(),
        await webhook(),
        await status("/api/webhooks/stripe", { ...signed, body: "{}" }),
      ],
      order: [await order(), await order()],
      cron: [await cron("GET", "another_secret_0123456789")],
      page: await status("/"),
    };
    await expect.poll(() => published()).toHaveLength(2); // without any call of the cron
    await createOutbox(database.db).enqueue({ topic: "order.placed", payload: "by SQL" });
    statuses.cron.push(await cron("GET", cronSecret), await cron("POST", cronSecret));
    await expect.poll(() => published()).toHaveLength(3);
    return { statuses, published: [...published()].sort() };
  });

const isWindows = process.platform === "win32";
/** No `skipLibCheck`: a user's compiler reads the package's types too. */
const strict = { strict: true, target: "es2022", esModuleInterop: true };
