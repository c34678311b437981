import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createInbox, migrate } from "../../../src/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { createWebhookRoute } from "../../../src/webhooks/index.js";
import { type OwnDatabase, ownDatabase } from "../../infra/own-database.js";
import { commandLinesIn, problemOf } from "../../support/command-lines.js";
import { type Block, blocks, blocksIn, placeOf } from "../../support/documents.js";
import { readDocument, root } from "../../support/markdown.js";

const run = promisify(execFile);

/** Blocks that are run or checked by a test of their own, by document and language. */
const elsewhere: Readonly<Record<string, string>> = {
  "docs/getting-started.md text": "test/runtime/getting-started.test.ts",
  "docs/messaging-protocol.md text": "test/unit/messaging/protocol-vectors.test.ts",
  "docs/other-languages.md csharp": "test/unit/docs/other-languages.test.ts",
  "docs/other-languages.md python": "test/unit/docs/other-languages.test.ts",
  "docs/other-languages.md sql": "test/unit/docs/other-languages.test.ts",
  "docs/runbook.md sql": "test/unit/docs/runbook-queries.test.ts",
  "docs/telemetry.md kusto": "test/unit/docs/telemetry-queries.test.ts",
  "docs/telemetry.md sql": "test/unit/docs/telemetry-queries.test.ts",
  "docs/telemetry.md text": "test/unit/docs/telemetry-queries.test.ts",
  "docs/webhooks.md text": "test/unit/cli/listen.test.ts",
};
const keyOf = ({ document, language }: Block): string => `${document} ${language}`;

describe("code blocks in the documents", () => {
  it("each is in a language that a test checks", () => {
    const known = ["ts", "js", "sh", "json"]; // programs.test.ts has the first two
    const here = ["docs/operations.md sql", "docs/azure.md kusto"];
    const others = blocks.filter(({ language }) => !known.includes(language)).map(keyOf);
    expect([...new Set(others)].sort()).toEqual([...here, ...Object.keys(elsewhere)].sort());
    for (const [key, test] of Object.entries(elsewhere)) {
      expect(existsSync(join(root, test)), test).toBe(true);
      expect(readDocument(test)).toContain(key.split(" ")[0]);
    }
  });

  it("JSON can be parsed", () => {
    const json = blocksIn("json");
    expect(json.length).toBeGreaterThan(0);
    for (const block of json) expect(() => JSON.parse(block.code), placeOf(block)).not.toThrow();
  });

  it.skipIf(process.platform === "win32")("a shell can read each of its lines", async () => {
    const shell = blocksIn("sh");
    expect(shell.length).toBeGreaterThan(10);
    for (const block of shell) {
      const { stderr } = await run("bash", ["-n", "-c", block.code]).catch(
        (error: { stderr: string }) => error,
      );
      expect(stderr, placeOf(block)).toBe("");
    }
  });

  it("npm runs only scripts that `oncebox init` creates, and nothing starts a source file", () => {
    const text = blocksIn("sh")
      .map(({ code }) => code)
      .join("\n");
    const scripts = [...text.matchAll(/\bnpm run ([\w:-]+)/g)].map(([, name]) => name!);
    expect(scripts.filter((name) => !["package:aws", "package:azure", "typecheck"].includes(name))).toEqual(
      [],
    );
    expect(text).not.toMatch(/\btsx src\//);
  });

  it("FUN-10 ADD-07 every command of oncebox, in the guides and the runbook also within sentences, exists and takes its options", async () => {
    const inBlocks = blocksIn("sh").flatMap((block) =>
      commandLinesIn(block.code.replace(/^npm .*$/gm, "")).map((line) => ({ place: placeOf(block), line })),
    );
    const inSentences = ["docs/deploy-aws.md", "docs/deploy-azure.md", "docs/runbook.md"].flatMap((page) =>
      [...readDocument(page).matchAll(/`((?:npx )?oncebox [^`]*)`/g)]
        .flatMap(([, code]) => commandLinesIn(code!.replaceAll(/\s+/g, " ")))
        .filter(([name]) => name !== "COMMAND")
        .map((line) => ({ place: page, line })),
    );
    expect(inBlocks.length).toBeGreaterThan(10);
    expect(inSentences.length).toBeGreaterThan(10);
    const lines = [...inBlocks, ...inSentences];
    const problems = [];
    for (const { place, line } of lines) {
      const problem = await problemOf(line);
      if (problem !== undefined) problems.push([place, line.join(" "), problem]);
    }
    expect(problems).toEqual([]);
  });
});

describe("the SQL of docs/operations.md", () => {
  let database: OwnDatabase;
  beforeAll(async () => {
    database = await ownDatabase();
    await migrate(database.db);
  });
  afterAll(() => database?.drop());

  const sql = blocksIn("sql").filter(({ document }) => document === "docs/operations.md");
  const isOfSqlite = ({ code }: Block) => code.startsWith("-- on SQLite");
  const statementsOf = (some: readonly Block[]) =>
    some.flatMap(({ code }) => code.replace(/--.*$/gm, "").split(";")).filter((text) => text.trim() !== "");

  it("runs on PostgreSQL", async () => {
    const statements = statementsOf(sql);
    expect(statements).not.toEqual([]);
    for (const text of statements) expect(await database.run(text)).toEqual([]);
  });

  it("runs on SQLite, where it is for SQLite", async () => {
    const db = openSqlite({ file: ":memory:" });
    await migrate(db);
    const statements = statementsOf(sql.filter(isOfSqlite));
    expect(statements).not.toEqual([]);
    for (const text of statements)
      expect(await db.driver.query({ name: "view", text: text.replace("infra.", "") }, {})).toEqual([]);
    await db.close();
  });
});

describe("the query of docs/azure.md", () => {
  it("asks for fields of the line that a refused webhook writes", async () => {
    const [{ code } = { code: "" }] = blocksIn("kusto").filter(
      ({ document }) => document === "docs/azure.md",
    );
    const asked = new Set([...code.matchAll(/line\.(\w+)/g)].map(([, name]) => name!));
    const lines: object[] = [];
    const log = (message: string, fields: object = {}) => void lines.push({ message, ...fields });
    const db = openSqlite({ file: ":memory:" });
    await migrate(db);
    const route = createWebhookRoute({
      inbox: createInbox(db),
      logger: { debug: log, info: log, warn: log, error: log },
      sources: { stripe: { scheme: "stripe", secrets: "whsec_0123456789abcdef" } },
    });
    await route(
      new Request("http://localhost/webhooks/stripe", {
        method: "POST",
        body: "{}",
        headers: { "content-type": "application/json" },
      }),
    );
    await db.close();
    const [line] = lines.filter((one) => "status" in one);
    expect(line).toMatchObject({ message: "webhook", status: 401 });
    for (const name of asked) expect(line, name).toHaveProperty(name);
    expect([...asked].sort()).toEqual(["message", "outcome", "reason", "source", "status"]);
  });
});
