import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { root } from "../support/markdown.js";
import { byImport, byRequire, ended, printing } from "./message-program.js";
import { type PackedPackage, packedPackage, run } from "./packed.js";

const require = createRequire(import.meta.url);

/** Uses the errors of one copy with the other. */
const bothFormats = `
import { createRequire } from "node:module";
import * as esm from "oncebox";
import { openSqlite } from "oncebox/sqlite";
const cjs = createRequire(import.meta.url)("oncebox");
const names = ["PermanentFailure", "RetryAfter", "LeaseLostError", "InvalidArgumentError", "ArgumentRangeError", "SchemaMissingError"];
const known = names.every((name) => new cjs[name](1) instanceof esm[name] && new esm[name](1) instanceof cjs[name]);
class Gone extends esm.PermanentFailure {}
const now = new Date();
const db = openSqlite({ file: ":memory:" });
await esm.migrate(db);
const outbox = esm.createOutbox(db, { logger: false, clock: () => now });
await outbox.enqueue({ topic: "gone", payload: "" });
const later = await outbox.enqueue({ topic: "later", payload: "" });
const handlers = { gone: () => cjs.permanentFailure("gone"), later: () => Promise.reject(cjs.retryAfter(60_000)) };
const { failed, abandoned } = await esm.createDispatcher({ handlers, logger: false }).run(outbox, esm.timeBudget(60_000));
const { nextAttemptAt } = await outbox.get({ id: later });
console.log(JSON.stringify({
  copies: new Set([cjs.PermanentFailure, esm.PermanentFailure]).size,
  known,
  knownAsBase: new cjs.SchemaMissingError("") instanceof esm.InvalidOperationError,
  ownSubclass: [new Gone("") instanceof cjs.PermanentFailure, cjs.permanentFailure("") instanceof Gone],
  others: [
    cjs.permanentFailure("") instanceof esm.RetryAfter,
    new cjs.InvalidOperationError("") instanceof esm.SchemaMissingError,
    undefined instanceof esm.PermanentFailure,
  ],
  dispatched: { failed, abandoned, dueInMs: nextAttemptAt - now },
}));
await db.close();`;

/** Without a driver's types its client is unknown, and not any. */
const nativeWithoutDriver = `
import { defineApp } from "oncebox";
export default defineApp.postgres({
  handlers: {
    paid: {
      transactional: true,
      handle(_message, { tx }) {
        // @ts-expect-error
        tx.native.query("select 1");
      },
    },
  },
});`;

describe("the packed package, in projects of every kind", () => {
  let packed: PackedPackage;
  let folder: string;
  let subpaths: readonly string[];

  beforeAll(async () => {
    packed = await packedPackage();
    folder = await mkdtemp(join(tmpdir(), "oncebox-formats-"));
    await link("oncebox", packed.folder, folder);
    for (const name of ["zod", "@photostructure/sqlite", "@types/node", "undici-types"])
      await link(name, join(root, "node_modules", name), folder);
    // The package's own folder is found by its real path, and so are the packages beside it.
    await link("@photostructure/sqlite", join(root, "node_modules/@photostructure/sqlite"), packed.folder);
    const manifest = JSON.parse(await readFile(join(packed.folder, "package.json"), "utf8"));
    subpaths = Object.keys(manifest.exports).filter((one) => one !== "./package.json");
  }, 180_000);
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true });
    await packed?.remove();
  });

  const output = async (file: string) => (await run(process.execPath, [file], { cwd: folder })).stdout.trim();

  it("is loaded by require", async () => {
    await writeFile(join(folder, "app.cjs"), printing(byRequire));
    expect(await output("app.cjs")).toBe(ended);
  });

  it("is loaded by import", async () => {
    await writeFile(join(folder, "app.mjs"), printing(byImport));
    expect(await output("app.mjs")).toBe(ended);
  });

  it("loaded by import and by require in one process, each knows the errors of the other", async () => {
    await writeFile(join(folder, "both.mjs"), bothFormats);
    expect(JSON.parse(await output("both.mjs"))).toEqual({
      copies: 2,
      known: true,
      knownAsBase: true,
      ownSubclass: [true, false],
      others: [false, false, false],
      dispatched: { failed: 1, abandoned: 1, dueInMs: 60_000 },
    });
  });

  it.each([
    ["missing.mjs", (name: string) => `await import("${name}")`],
    ["missing.cjs", (name: string) => `require("${name}")`],
  ])(
    "ADD-10 a missing SDK is reported when its user is created, before any message: %s",
    async (file, load) => {
      const isModule = file.endsWith(".mjs");
      const internal = (path: string) => load(join(packed.folder, isModule ? "dist" : "dist/cjs", path));
      const publishers = load("oncebox/publishers");
      const sourceOf = (resolver: string, reference: object) =>
        `(${internal("app/sources.js")}).webhookSources({ shop: ${JSON.stringify({ secrets: reference })} }, {}, (${resolver})(process.env))`;
      const tokenOf = (resolver: string, name: string) =>
        `(${internal("app/sources.js")}).tokenSecrets({ from: "env", name: "${name}" }, (${resolver})(process.env))`;
      const aws = `(${internal("adapters/aws/secrets-manager.js")}).awsSecrets`;
      const azure = `(${internal("adapters/azure/key-vault.js")}).azureSecrets`;
      const vault = { from: "azure-key-vault", vault: "https://v.example", name: "s" };
      /** The package, who needs it, and what makes that. */
      const makes: readonly (readonly [name: string, user: string, make: string])[] = [
        [
          "@aws-sdk/client-sqs",
          "sqsPublisher",
          `(${publishers}).sqsPublisher({ queueUrl: "https://sqs.example/1/a" })`,
        ],
        [
          "@aws-sdk/client-sns",
          "snsPublisher",
          `(${publishers}).snsPublisher({ topicArn: "arn:aws:sns:eu-central-1:1:a" })`,
        ],
        [
          "@aws-sdk/client-eventbridge",
          "eventBridgePublisher",
          `(${publishers}).eventBridgePublisher({ source: "com.example" })`,
        ],
        ["pg", "PostgreSQL", `(${load("oncebox/postgres")}).openPostgres({ url: "postgres://h/d" })`],
        ["mssql", "SQL Server", `(${load("oncebox/sqlserver")}).openSqlServer({ url: "mssql://u:p@h/d" })`],
        [
          "ioredis",
          "The Redis inbox store",
          `(${internal("inbox-store/redis-inbox-store.js")}).createRedisInboxStore({ url: "redis://localhost" })`,
        ],
        [
          "mongodb",
          "The MongoDB inbox store",
          `(${internal("inbox-store/mongo-inbox-store.js")}).createMongoInboxStore({ url: "mongodb://localhost/x" })`,
        ],
        [
          "@grpc/grpc-js",
          "A destination with a gRPC address",
          `(${load("oncebox/messaging")}).createService({
          serviceId: "a",
          db: (${load("oncebox/sqlite")}).openSqlite({ file: ":memory:" }),
          messages: {},
          destinations: { b: { address: "grpc://localhost:1", secrets: ["c2VjcmV0LXNlY3JldC1zZWNyZXQ="] } },
        })`,
        ],
        [
          "jose",
          "A scheme with JSON web tokens",
          `(${load("oncebox/webhooks")}).createWebhookRoute({
          inbox: { receive() {}, enqueue() {} },
          sources: { bank: { scheme: (${load("oncebox/webhooks/plaid")}).plaid, secrets: ["{}"] } },
        })`,
        ],
        [
          "@aws-sdk/client-secrets-manager",
          "tenantsFromSecretsManager",
          `(${internal("adapters/aws/secrets-manager.js")}).tenantsFromSecretsManager({ prefix: "t/" })`,
        ],
        [
          "@azure/keyvault-secrets",
          "tenantsFromKeyVault",
          `(${internal("adapters/azure/key-vault.js")}).tenantsFromKeyVault({ vault: "https://v.example", prefix: "t" })`,
        ],
        [
          "@aws-sdk/client-secrets-manager",
          "A secret in AWS Secrets Manager",
          sourceOf(aws, { from: "aws-secrets-manager", id: "s" }),
        ],
        ["@azure/keyvault-secrets", "A secret in Azure Key Vault", sourceOf(azure, vault)],
        ["@azure/keyvault-secrets", "A secret in Azure Key Vault", tokenOf(azure, "ADMIN_TOKEN")],
      ];
      const tries = makes.map(
        ([, , make]) =>
          `try { await ${make}; console.log("made"); } catch (e) { console.log(e.message.split("\\n").at(-1)); }`,
      );
      const program = [`process.env.ADMIN_TOKEN = ${JSON.stringify(JSON.stringify(vault))};`, ...tries];
      await writeFile(join(folder, file), `(async () => {\n${program.join("\n")}\n})();\n`); // CommonJS has no await outside
      expect((await output(file)).split("\n")).toEqual(
        makes.map(([name, user]) =>
          expect.stringContaining(`${user} needs the package "${name}". Run: npm install ${name}`),
        ),
      );
    },
  );

  it("is bundled as CommonJS by esbuild", async () => {
    await build({
      stdin: { contents: printing(byRequire), resolveDir: folder },
      outfile: join(folder, "bundle.cjs"),
      bundle: true,
      platform: "node",
      format: "cjs",
      packages: "bundle",
      external: ["@photostructure/sqlite"], // it has a binary
      logLevel: "error", // packages that are not installed are warnings
    });
    expect(await output("bundle.cjs")).toBe(ended);
  });

  it("ADD-19 its types need none of the optional packages, in modules and in CommonJS, with every library checked", async () => {
    const names = subpaths.map((one) => `oncebox${one.slice(1)}`.replace("*", "stripe"));
    const imports = names.map((name, i) => `import * as m${i} from "${name}";\nvoid m${i};`);
    const requires = names.map((name, i) => `import m${i} = require("${name}");\nvoid m${i};`);
    await writeFile(join(folder, "all.mts"), imports.join("\n"));
    await writeFile(join(folder, "all.cts"), requires.join("\n"));
    await writeFile(join(folder, "native.mts"), nativeWithoutDriver);
    const compilerOptions = {
      strict: true,
      noEmit: true,
      skipLibCheck: false,
      module: "node16",
      target: "es2022",
      types: ["node"],
    };
    await writeFile(
      join(folder, "tsconfig.json"),
      JSON.stringify({ compilerOptions, files: ["all.mts", "all.cts", "native.mts"] }),
    );
    const tsc = join(require.resolve("typescript/package.json"), "../bin/tsc");
    const { stdout } = await run(process.execPath, [tsc, "-p", folder]).catch((error) => error);
    expect(stdout).toBe("");
  });

  it("names every optional package as a peer with a range that takes older ones", async () => {
    const manifest = JSON.parse(await readFile(join(packed.folder, "package.json"), "utf8"));
    const { peerDependencies, peerDependenciesMeta } = manifest;
    expect(Object.keys(peerDependenciesMeta)).toEqual(Object.keys(peerDependencies));
    for (const range of Object.values(peerDependencies)) expect(range).toMatch(/^>=\d/);
    expect(peerDependencies).toMatchObject({ mssql: ">=11", esbuild: ">=0.20" });
  });

  it("has types for compilers that do not read exports", async () => {
    const manifest = JSON.parse(await readFile(join(packed.folder, "package.json"), "utf8"));
    for (const name of subpaths.filter((one) => one !== "."))
      expect(manifest.typesVersions["*"][name.slice(2)]).toEqual([manifest.exports[name].require.types]);
  });

  it("has no source maps, whose sources would be missing", async () => {
    const { stdout } = await run("tar", ["-tzf", packed.tarball]);
    expect(stdout.split("\n").filter((name) => name.endsWith(".map"))).toEqual([]);
    const dist = join(packed.folder, "dist");
    const files = await readdir(dist, { recursive: true, withFileTypes: true });
    const texts = files.filter((file) => file.isFile() && /\.[cm]?[jt]s$/.test(file.name));
    expect(texts.length).toBeGreaterThan(100);
    for (const { parentPath, name } of texts)
      expect(await readFile(join(parentPath, name), "utf8"), name).not.toMatch(
        /^\/\/# sourceMappingURL=(?!data:)/m,
      );
  });
});

describe("a linked package (npm link, workspaces)", () => {
  let packed: PackedPackage;
  let workspace: string;

  beforeAll(async () => {
    packed = await packedPackage();
    workspace = await mkdtemp(join(tmpdir(), "oncebox-linked-"));
  });
  afterAll(async () => {
    await rm(workspace, { recursive: true, force: true });
    await packed?.remove();
  });

  it("FUN-09 makes bundles for one database, whatever its folder is called", async () => {
    await packed.cli(["init", "aws", "app"], workspace);
    const app = join(workspace, "app");
    await link("oncebox", packed.folder, app);
    // The drivers of SQL Server and SQLite are not installed.
    for (const name of ["esbuild", "fflate", "pg", "@middy/core"])
      await link(name, join(root, "node_modules", name), packed.folder);
    await packed.cli(["package", "aws", "--database", "postgres"], app);
    const webhook = await readFile(join(app, "build/aws/functions/webhook.mjs"), "utf8");
    expect(webhook.includes("This bundle was built for postgres.")).toBe(true);
  });
});

async function link(name: string, target: string, folder: string): Promise<void> {
  const path = join(folder, "node_modules", name);
  await mkdir(dirname(path), { recursive: true });
  await symlink(target, path, "junction");
}
