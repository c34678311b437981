import { execFile, spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { createInbox, createOutbox, type Database, migrate, newOwnerToken } from "../../../src/index.js";
import { loadSqlite } from "../../../src/sql/sqlite/client.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { type OwnDatabase, ownDatabase } from "../../infra/own-database.js";
import { blocksIn } from "../../support/documents.js";
import { sqlServerHarness } from "../../support/sqlserver-harness.js";

const run = promisify(execFile);
const codeIn = (language: string): readonly string[] =>
  blocksIn(language)
    .filter(({ document }) => document === "docs/other-languages.md")
    .map(({ code }) => code);
const sqlOf = (dialect: string): string =>
  codeIn("sql")
    .find((code) => code.startsWith(`-- ${dialect}\n`))!
    .replace(/^.*\n/, "");
const pythonOf = (library: string): string => codeIn("python").find((code) => code.includes(library))!;

const canRun = (program: string, ...args: string[]): boolean => spawnSync(program, args).status === 0;
const hasPsycopg = canRun("python3", "-c", "import psycopg");
const hasSqlite = canRun("python3", "-c", "import sqlite3; assert sqlite3.sqlite_version_info >= (3, 38)");

/** What every example leaves behind: one message in each queue. */
async function expectMessages(db: Database, schema?: string): Promise<void> {
  const options = schema === undefined ? {} : { schema };
  const claimed = await createOutbox(db, options).claim({ owner: newOwnerToken() });
  expect(claimed).toMatchObject([
    { topic: "receipt.send", data: { invoice: 7 }, partitionKey: "customer-1" },
  ]);
  const received = await createInbox(db, options).claim({ owner: newOwnerToken() });
  expect(received).toMatchObject([{ source: "erp", messageId: "order-7", data: { order: 7 } }]);
}

/** docs/other-languages.md: its blocks are run. */
describe("the page about other languages", () => {
  describe("on PostgreSQL", () => {
    let database: OwnDatabase;
    beforeAll(async () => {
      database = await ownDatabase();
    });
    afterAll(() => database?.drop());
    const fresh = async (): Promise<Database> => {
      await database.run("drop schema if exists infra cascade");
      await migrate(database.db);
      return database.db;
    };

    it("ADD-26 SQL", async () => {
      const db = await fresh();
      for (const statement of sqlOf("postgres")
        .split(";\n")
        .filter((text) => text.includes("select")))
        await database.run(statement);
      await expectMessages(db);
    });

    it.skipIf(!hasPsycopg)("ADD-26 Python with psycopg (needs python3 with psycopg)", async () => {
      const db = await fresh();
      const env = { ...process.env, DATABASE_URL: database.url };
      const { stdout } = await run("python3", ["-c", pythonOf("psycopg")], { env });
      expect(stdout).toMatch(/^[0-9a-f-]{36} enqueued\n$/);
      await expectMessages(db);
    });

    it.skipIf(!canRun("psql", "--version"))(
      "ADD-26 the script with psql (needs psql on the PATH)",
      async () => {
        const db = await fresh();
        await run("psql", [database.url, "-v", "ON_ERROR_STOP=1", "-c", sqlOf("postgres")]);
        await expectMessages(db);
      },
    );
  });

  describe("on SQLite", () => {
    let folder: string;
    let file: string;
    let db: Database;
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "oncebox-python-"));
    });
    afterAll(() => rm(folder, { recursive: true, force: true }));
    const fresh = async (name: string) => {
      file = join(folder, name);
      db = openSqlite({ file });
      await migrate(db);
    };

    it("ADD-26 SQL", async () => {
      await fresh("sql.db");
      const connection = new (await loadSqlite())(file);
      connection.exec(sqlOf("sqlite"));
      connection.close();
      await expectMessages(db).finally(() => db.close());
    });

    it.skipIf(!hasSqlite)("ADD-26 Python with its own module (needs python3 with SQLite 3.38)", async () => {
      await fresh("python.db");
      const env = { ...process.env, DATABASE_FILE: file };
      const { stdout } = await run("python3", ["-c", pythonOf("sqlite3")], { env });
      expect(stdout).toMatch(/^[0-9a-f-]{36} enqueued\n$/);
      await expectMessages(db).finally(() => db.close());
    });
  });

  const sqlServerUrl = inject("sqlServerUrl");
  it.skipIf(sqlServerUrl === "")("ADD-26 SQL Server (needs ONCEBOX_TEST_MSSQL_URL or Docker)", async () => {
    const database = await sqlServerHarness(sqlServerUrl).open();
    try {
      await migrate(database.db, { schema: database.schema! });
      await database.raw(sqlOf("sqlserver").replaceAll("infra.", `${database.schema}.`));
      await expectMessages(database.db, database.schema);
    } finally {
      await database.close();
    }
  });

  it("ADD-26 C# calls the routines with parameters that they have", () => {
    const [npgsql, sqlClient] = codeIn("csharp") as [string, string];
    expect(sqlOf("postgres")).toContain("infra.outbox_enqueue(topic => ");
    expect(npgsql).toContain("infra.outbox_enqueue(topic => $1, payload => $2, partition_key => $3)");
    const enqueue = sqlClient.slice(sqlClient.indexOf("infra.Outbox_Enqueue"));
    const given = [...enqueue.matchAll(/"(@\w+)"/g)].map(([, name]) => name);
    expect(given).toEqual(["@topic", "@payload", "@partition_key", "@id"]);
    for (const name of given) expect(sqlOf("sqlserver")).toContain(`${name} = `);
  });
});
