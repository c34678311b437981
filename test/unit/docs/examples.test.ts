import { readdirSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { packageEntries } from "../../../scripts/docs/package-entries.js";
import { fromSources, readDocument, root } from "../../support/markdown.js";
import { typeErrors } from "../../support/type-check.js";

/** What the examples say nothing of, because a reader has it: stores, and rows, clients and handlers of the reader's own. */
const ofReader =
  "app body book callerOf channel client completeAddress context DatabaseSync delivery event handle handler " +
  "handlers insertOrder insertPayment inventory itemsSchema key messages metrics myTransport " +
  "openTestDatabase openTestStore order orderSchema orders placeOrder pool readFromVault readToken readTokens " +
  "report request reservedSchema route scope service signal startMyServer store stripe tenants timeOfItsBackUp token work";
const given = `
import type { Dispatcher, Database, Inbox, Outbox, SqlExecutor } from "INDEX";
declare global {
  var db: Database, inbox: Inbox, outbox: Outbox, tx: SqlExecutor, dispatcher: Dispatcher<any>;
  var url: string, payload: string, id: string, queueUrl: string, topicArn: string, address: string, secrets: string[];
  var ${ofReader.replaceAll(" ", ": any, ")}: any;
  var openDatabase: typeof import("INDEX").openDatabase; // passed on, not called
  var database: (open: (url: string) => Promise<Database>) => Promise<Database>;
  var knex: import("knex").Knex;
  namespace Knex {
    type Transaction = import("knex").Knex.Transaction;
  }
  var kysely: import("kysely").Kysely<any>;
  var drizzle: import("drizzle-orm/node-postgres").NodePgDatabase;
  var dataSource: import("typeorm").DataSource;
  var prisma: { $transaction(work: (tx: any) => Promise<void>): Promise<void> };
  var fastify: import("fastify").FastifyInstance;
  var sendInvoice: (message: { messageId: string; headers: Record<string, string>; body: string }, options?: any) => Promise<void>;
  var middy: typeof import("@middy/core").default;
  var z: typeof import("zod").z;
  var createServer: typeof import("node:http").createServer;
  type InboxMessage = import("INDEX").InboxMessage;
  type OutboxMessage = import("INDEX").OutboxMessage;
}
`;

/** Examples that are not compiled, by their file. */
const notCompiled: Readonly<Record<string, string>> = {
  "src/messaging/responses.ts": "the line with which a handler returns",
  "src/messaging/service.ts": "its messages are declared elsewhere: docs/messaging.md has the whole program",
};

interface Example {
  /** The file and the line. */
  readonly place: string;
  readonly source: string;
  readonly code: string;
  /** What the comment is about. Undefined for a member of a type. */
  readonly name: string | undefined;
}

const sources = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
  .map((name) => `src/${name.replaceAll("\\", "/")}`)
  .filter((name) => name.endsWith(".ts"));

const commentWithExample =
  /\/\*\*(?:(?!\*\/)[\s\S])*?@example\n([\s\S]*?)\*\/\n(?:export (?:async )?(?:function|const|class|interface|type) (\w+))?/g;

/** The examples of the comments. The API reference shows those of what the package exports. */
const examples: readonly Example[] = sources.flatMap((source) => {
  const text = readDocument(source);
  return [...text.matchAll(commentWithExample)].map(({ 1: lines, 2: name, index }) => ({
    place: `${source}:${text.slice(0, index).split("\n").length}`,
    source,
    name,
    code: lines!
      .split(/^\s*\* @/m)[0]!
      .replace(/^\s*\* ?/gm, "")
      .replace(/^```.*$/gm, ""),
  }));
});

interface Module {
  readonly source: string;
  readonly names: readonly string[];
}

const withoutIndex = (source: string): string => source.replace(/(\/index)?\.ts$/, "");

/** The names that the middleware of a cloud has, too, for middy. Everything else takes those of oncebox/middleware. */
const twice = ["transaction", "inbox", "outbox"];

/** The module from which a reader would import a name: that of the example itself, the package's first, or another. */
function moduleOf(name: string, modules: readonly Module[], { source, code }: Example): Module | undefined {
  const rank = (one: Module): number => {
    const folder = withoutIndex(one.source);
    if (source.startsWith(folder)) return 1_000 + folder.length;
    return one.source === "src/index.ts" ? 2 : 1;
  };
  const isForMiddy = /\bmiddy\(/.test(code);
  return modules
    .filter(({ names }) => names.includes(name))
    .filter((one) => isForMiddy || !twice.includes(name) || !one.source.includes("/adapters/"))
    .sort((one, other) => rank(other) - rank(one))[0];
}

/** The example with an import of everything that it calls and does not make or import itself. */
function program(example: Example, modules: readonly Module[]): string {
  const { code } = example;
  const own = new Set(
    [
      ...code.matchAll(/(?:const|let|function|class) (\w+)|import (?:type )?\{([^}]*)\}|import (\w+)/g),
    ].flatMap(([, made, imported, whole]) => [
      made,
      whole,
      ...(imported ?? "").split(/,\s*/).map((one) => one.trim()),
    ]),
  );
  const called = [...code.matchAll(/(?<=\.\.\.|(?<![.\w"']))(\w+)(?=[(<])/g)].map(([, name]) => name!);
  const lines = [...new Set(called)]
    .filter((name) => !own.has(name))
    .flatMap((name) => {
      const found = moduleOf(name, modules, example);
      return found === undefined
        ? []
        : [`import { ${name} } from ${JSON.stringify(join(root, found.source))};`];
    });
  return `${lines.join("\n")}\n${fromSources(code)}\nexport {};\n`;
}

let folder: string;
let shown: readonly Example[];
beforeAll(async () => {
  folder = await mkdtemp(join(root, "node_modules/.oncebox-examples-")); // to find the packages
  const entries = packageEntries(root).filter(({ name }) => !/\/webhooks\/./.test(name));
  const modules = await Promise.all(
    entries.map(async ({ source }) => ({ source, names: Object.keys(await import(join(root, source))) })),
  );
  const exported = new Set(modules.flatMap(({ names }) => names));
  shown = examples.filter(
    ({ name, source }) => (name === undefined || exported.has(name)) && !(source in notCompiled),
  );
  await writeFile(join(folder, "given.mts"), given.replaceAll("INDEX", join(root, "src/index.ts")));
  await writeFile(
    join(folder, "app.ts"),
    fromSources(`import { defineApp } from "oncebox";\nexport default defineApp({});\n`),
  );
  for (const example of shown)
    await writeFile(join(folder, `${example.place.replace(/\W/g, "-")}.mts`), program(example, modules));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

it("the examples in the API reference type-check, with what the package exports", async () => {
  expect(shown.length).toBeGreaterThan(10);
  for (const file of Object.keys(notCompiled)) expect(examples.map(({ source }) => source)).toContain(file);
  expect(await typeErrors(folder)).toBe("");
});
