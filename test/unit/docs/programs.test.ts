import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { migrate } from "../../../src/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { type OwnDatabase, ownDatabase } from "../../infra/own-database.js";
import { type Block, blocksIn, placeOf } from "../../support/documents.js";
import { fromSources, root } from "../../support/markdown.js";
import { type FileServer, serveFiles } from "../../support/serve-files.js";
import { typeErrors } from "../../support/type-check.js";

const run = promisify(execFile);

/** Programs that are not compiled, by their first line. */
const notCompiled: Readonly<Record<string, string>> = {
  "db.oncebox_inbox_keys.createIndex({ expiresAt: 1 }, { expireAfterSeconds: 0 })":
    "a line for MongoDB's shell, which is no module",
  'import { useAzureMonitor } from "@azure/monitor-opentelemetry";':
    "needs a package of 60 MB that nothing else here needs",
  'import { after } from "next/server";':
    "needs Next; test/infra/packed-projects.network.ts runs the example in it",
};

/** Programs that are compiled and not run here, by a piece of them. */
const notRun: Readonly<Record<string, string>> = {
  'kind: "redis"': "needs a Redis; test/runtime/consumers runs consumeOnce, and test/contract has each store",
  "// oncebox/orm": "needs a database of Drizzle; test/runtime/orms has one",
  "declare const dataSource": "needs a data source of TypeORM; test/runtime/orms has one",
  "await fetch(signed.url, signed)":
    "sends to an app that runs; test/unit/docs/first-programs.test.ts sends such a request",
};

/** What a program needs from the text around it, by a piece of the program. */
const given: Readonly<Record<string, string>> = {
  "readFromVault(": "const readFromVault = async (name: string) => 'secret of '.concat(name);",
  "await route(request)":
    'const request = new Request("http://localhost/webhooks/stripe", { method: "POST", body: "{}" });',
  "// oncebox/orm": [
    'import { createApp, defineApp } from "oncebox";',
    'import { fromDrizzle } from "oncebox/orm";',
    'import { pgTable, text } from "drizzle-orm/pg-core";',
    'const orders = pgTable("orders", { id: text("id").primaryKey() });',
    'declare const db: import("drizzle-orm/node-postgres").NodePgDatabase;',
    "const definition = defineApp.postgres({});",
  ].join("\n"),
  clientState: 'const clientState = "a secret of 24 characters";',
  "syncFromCursor(": "const syncFromCursor = async (account: string) => console.log(account);",
};

/** The blocks of the guide to webhooks that show sources of providers, as a route takes them together. */
const webhookSources = (): string => {
  const shown = ["notionVerification", "dropboxSource", "decryptGraphContent"];
  const sources = blocksIn("ts").filter(({ code }) => shown.some((one) => code.includes(one)));
  expect(sources).toHaveLength(shown.length);
  return [
    'import { createInbox } from "oncebox";',
    'import { openSqlite } from "oncebox/sqlite";',
    'import { createWebhookRoute } from "oncebox/webhooks";',
    givenTo(sources.map(({ code }) => code).join("\n")),
    ...sources.map(({ code }) => code),
    "export const sources = { notion: notionSource, dropbox: dropboxSource, graph: graphSource };",
    'export const route = createWebhookRoute({ inbox: createInbox(openSqlite({ file: ":memory:" })), sources });',
    "export const all = [handlers, graphHandlers];",
  ].join("\n");
};

const givenTo = (code: string): string =>
  Object.entries(given)
    .filter(([piece]) => code.includes(piece))
    .map(([, line]) => line)
    .join("\n");

/** The variables that the programs read. */
const environment = {
  ONCEBOX_ADMIN_TOKENS: "alice:0123456789abcdef",
  ONCEBOX_GITHUB_TOKEN: "a token of GitHub",
  ONCEBOX_RECOVER_GITHUB: "acme/shop:123456789",
  TENANTS_PREFIX: "orders/prod/tenants/",
  TENANTS_VAULT_URL: "https://tenants.vault.azure.net",
};

/** The app that programs import as ./app.js or ../app.js. */
const app = `import { defineApp } from "oncebox";\nexport default defineApp({ handlers: { ping: () => {} } });\n`;

const pieceOf = (list: Readonly<Record<string, string>>, { code }: Block): string | undefined =>
  Object.keys(list).find((piece) => code.includes(piece));

const all = blocksIn("ts", "js");
const programs = all.filter((block) => pieceOf(notCompiled, block) === undefined);
const fileOf = (block: Block): string => `${placeOf(block).replace(/\W/g, "-")}.mts`;

describe("the programs in the documents", () => {
  let folder: string;
  let functions: string;
  let database: OwnDatabase;
  let peer: FileServer;
  beforeAll(async () => {
    peer = await serveFiles(root, "/");
    database = await ownDatabase();
    await migrate(database.db);
    await database.run("create table orders (id text primary key, total integer)"); // as handlers.md says
    folder = await mkdtemp(join(root, "node_modules/.oncebox-docs-")); // to find the packages
    functions = join(folder, "functions");
    await mkdir(functions);
    await writeFile(join(folder, "package.json"), '{ "type": "module" }');
    for (const place of [folder, functions]) await writeFile(join(place, "app.ts"), fromSources(app));
    const service = await readFile(join(root, "functions/service.ts"), "utf8"); // programs import it as ../service.js
    const imported = service
      .replace("../src/index.js", "oncebox")
      .replace("../src/messaging/index.js", "oncebox/messaging");
    await writeFile(join(folder, "service.ts"), fromSources(imported));
    for (const block of programs) {
      const program = fromSources(`${givenTo(block.code)}\n${await onOwnDatabase(block)}`);
      await writeFile(join(functions, fileOf(block)), program);
      const [, name] = /^\/\/ ([\w-]+\.ts)\n/.exec(block.code) ?? []; // for the page's other programs, which import it
      if (name !== undefined) await writeFile(join(functions, name), program);
    }
    await writeFile(join(functions, "webhook-sources.mts"), fromSources(webhookSources()));
  });
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true });
    await peer?.stop();
    await database?.drop();
  });

  /** The program with servers that are there: the tests' PostgreSQL or a file of its own, migrated, and a peer that answers. */
  async function onOwnDatabase(block: Block): Promise<string> {
    const { code } = block;
    const file = join(folder, `${fileOf(block)}.db`);
    if (/"(sqlite:)?app\.db"/.test(code)) {
      const sqlite = openSqlite({ file });
      await migrate(sqlite);
      await sqlite.close();
    }
    return code
      .replace(/"(sqlite:)?app\.db"/g, (_, kind = "") => JSON.stringify(kind + file))
      .replace(/\.listen\(\d+[^)]*\)/g, '.listen(0, "127.0.0.1")')
      .replace(/fetch\("https:[^"]*"/g, `fetch(${JSON.stringify(peer.url)}`)
      .replace(/"postgres:\/\/[^"]*@db\.example\/[^"]*"/g, JSON.stringify(database.url));
  }

  it("type-check, with what the package exports", async () => {
    expect(programs.length).toBeGreaterThan(10);
    expect(await typeErrors(folder)).toBe("");
  });

  it("run to their last line, except those that need a server", async () => {
    const files = programs
      .filter((block) => pieceOf(notRun, block) === undefined)
      .map((block) => join(functions, fileOf(block)));
    const runner = join(folder, "runner.mjs");
    await writeFile(runner, runEach(files, folder));
    const tsx = join(root, "node_modules/tsx/dist/loader.mjs");
    const { stdout } = await run(process.execPath, ["--no-warnings", "--import", tsx, runner], {
      cwd: folder,
      env: { ...process.env, ...environment },
    });
    const [, printed = ""] = stdout.split("\nended: ");
    expect(JSON.parse(printed)).toEqual(Object.fromEntries(files.map((file) => [file, "ended"])));
  });

  it("nothing in the lists above is out of date", () => {
    for (const list of [notCompiled, notRun, given])
      for (const piece of Object.keys(list))
        expect(
          all.some(({ code }) => code.includes(piece)),
          piece,
        ).toBe(true);
  });
});

/** Imports one program after the other, each in an empty folder, and prints how each ended. */
const runEach = (files: readonly string[], folder: string): string => `
import { mkdtempSync } from "node:fs";
import { pathToFileURL } from "node:url";
const ends = {};
for (const file of ${JSON.stringify(files)}) {
  process.chdir(mkdtempSync(${JSON.stringify(join(folder, "run-"))}));
  const long = new Promise((resolve) => setTimeout(resolve, 60_000, "does not end").unref());
  const program = import(pathToFileURL(file).href).then(() => "ended", (error) => error.stack);
  ends[file] = await Promise.race([program, long]);
}
console.log("\\nended: " + JSON.stringify(ends));
process.exit(0);
`;
