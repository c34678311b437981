import { randomUUID } from "node:crypto";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import type { Measurement } from "../../../src/cli/bench.js";
import { exitCodes } from "../../../src/cli/command.js";
import { runCli } from "../../../src/cli/run.js";
import { createInbox, type Database, migrate } from "../../../src/index.js";
import { openPostgres } from "../../../src/sql/postgres/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { openSqlServer } from "../../../src/sql/sqlserver/index.js";
import { ownDatabase } from "../../infra/own-database.js";
import { cli } from "../../support/cli.js";
import { isSlowServer, patient } from "../../support/sqlserver-harness.js";

const tiny = ["bench", "--seconds", "0.2", "--concurrency", "1,4", "--payload", "100"];

/** Every kind, with a rate; calls with their times. */
function expectMeasured(out: string): void {
  const { measured } = JSON.parse(out) as { measured: readonly Measurement[] };
  expect(measured.map(({ name, concurrency }) => [name, concurrency])).toEqual([
    ["round trip", null],
    ["receive", 1],
    ["receive", 4],
    ["claim of 50", null],
    ["dispatch", 1],
    ["dispatch", 4],
  ]);
  for (const { name, count, perSecond, medianMs, p95Ms } of measured) {
    expect({ name, isCounted: count > 0 && perSecond > 0 }).toEqual({ name, isCounted: true });
    if (name === "dispatch") expect([medianMs, p95Ms]).toEqual([null, null]);
    else expect(p95Ms).toBeGreaterThanOrEqual(medianMs!);
  }
}

describe("bench on SQLite", () => {
  let folder: string;
  let database: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "oncebox-bench-"));
    database = `sqlite:${join(folder, "app.db")}`;
    const db = openSqlite({ file: join(folder, "app.db") });
    await migrate(db);
    await createInbox(db).receive({ source: "s", messageId: "1", topic: "t", payload: "" });
    await db.close();
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it("ADD-07 measures in a file of its own, and leaves the database as it was", async () => {
    const { code, out, err } = await cli(...tiny, "--json", "--database", database);
    expect(code).toBe(exitCodes.ok);
    expectMeasured(out);
    expect(JSON.parse(out).database).toBe(database);
    expect(err).toContain(`Measuring in the file ${join(folder, "app.db.bench-")}`);
    expect((await readdir(folder)).filter((name) => name.includes("bench"))).toEqual([]);
    const status = await cli("status", "--json", "--database", database);
    expect(JSON.parse(status.out).inbox).toMatchObject({ counts: { Processing: 1 }, due: 1 });
  });

  it("ADD-07 prints a table", async () => {
    const { out } = await cli(...tiny, "--database", database);
    expect(out).toMatch(/^MEASURED +CONCURRENCY +PER SECOND +MEDIAN MS +P95 MS +COUNT\nround trip +\d+ /);
    expect(out).toMatch(/^receive +4 +\d+ +\d+\.\d\d +\d+\.\d\d +\d+$/m);
  });

  it("ADD-07 when it is stopped, what it made is removed, and the exit code says that it is not complete", async () => {
    const errors: string[] = [];
    const stopped = new AbortController();
    const code = await runCli([...tiny, "--database", database], {
      env: {},
      isInteractive: false,
      out: () => {},
      err: (line) => {
        errors.push(line);
        stopped.abort();
      },
      signal: stopped.signal,
    });
    expect(code).toBe(exitCodes.more);
    expect(errors).toHaveLength(1);
    expect((await readdir(folder)).filter((name) => name.includes("bench"))).toEqual([]);
  });

  it.each([
    [["--schema", "scratch"], /On SQLite bench uses a file of its own/],
    [["--seconds", "0"], /greater than 0/],
    [["--concurrency", "1,x"], /whole numbers from 1 to 1000/],
    [["--payload", "1000001"], /1000000 at most/],
  ])("ADD-07 %j is refused", async (args, words) => {
    const { code, out, err } = await cli("bench", ...args, "--database", database);
    expect([code, out]).toEqual([exitCodes.usage, ""]);
    expect(err).toMatch(words);
  });
});

/** What a server has, on which others work too. */
function onServer(url: string, openDatabase: () => Database): void {
  let db: Database;
  beforeAll(() => {
    db = openDatabase();
  });
  afterAll(() => db.close());

  const run = (text: string) => db.driver.query({ name: "test", text, unprepared: true }, {});
  const schemas = async (like: string) =>
    (
      await run(
        `select schema_name as name from information_schema.schemata where schema_name like '${like}'`,
      )
    ).map(({ name }) => name);

  it("ADD-07 needs --yes, and then drops the schema that it made", { timeout: 240_000 }, async () => {
    const refused = await cli(...tiny, "--database", url);
    expect([refused.code, refused.out]).toEqual([exitCodes.usage, ""]);
    expect(refused.err).toMatch(/Allow it with --yes, or name the schema with --schema NAME/);
    const { code, out, err } = await cli(...tiny, "--yes", "--json", "--database", url);
    expect(code).toBe(exitCodes.ok);
    expectMeasured(out);
    const [, made] = /Measuring in the schema (oncebox_bench_\w{8}), which is dropped/.exec(err)!;
    expect(await schemas(made!)).toEqual([]);
  });

  it("ADD-07 refuses a schema that exists, and drops nothing of it", { timeout: 120_000 }, async () => {
    const schema = `t_${randomUUID().slice(0, 8)}`;
    await run(`create schema ${schema}`);
    try {
      await run(`create table ${schema}.mine (id int)`);
      for (const name of [schema, schema.toUpperCase()]) {
        const { code, err } = await cli("bench", "--schema", name, "--database", url);
        expect(code).toBe(exitCodes.usage);
        expect(err).toMatch(/bench uses only a schema that it makes itself/);
      }
      expect(await run(`select id from ${schema}.mine`)).toEqual([]);
    } finally {
      await run(`drop table ${schema}.mine`);
      await run(`drop schema ${schema}`);
    }
    const odd = await cli("bench", "--schema", 'a"; drop', "--database", url);
    expect(odd).toMatchObject({
      code: exitCodes.usage,
      err: expect.stringMatching(/must begin with a letter/),
    });
  });
}

const postgresUrl = inject("postgresUrl");
describe("bench on PostgreSQL", () => {
  onServer(postgresUrl, () => openPostgres({ url: postgresUrl }));

  it("ADD-07 drops the schema after an error too", async () => {
    const own = await ownDatabase();
    try {
      await own.run(
        "create function refuse() returns event_trigger language plpgsql as $$ begin raise 'no room'; end $$",
      );
      // after the first tables
      await own.run(
        "create event trigger refuse on ddl_command_start when tag in ('CREATE INDEX') execute function refuse()",
      );
      const { code, out, err } = await cli("bench", "--schema", "scratch", "--database", own.url);
      expect([code, out]).toEqual([exitCodes.failed, ""]);
      expect(err).toMatch(/Measuring in the schema scratch[\s\S]*no room/);
      expect(await own.run("select 1 from pg_namespace where nspname = 'scratch'")).toEqual([]);
    } finally {
      await own.drop();
    }
  });
});

const sqlServerUrl = inject("sqlServerUrl");
// bench creates its own schema, which a stand-in for SQL Server does not take as it is
describe.skipIf(await isSlowServer(sqlServerUrl))(
  "bench on SQL Server (needs ONCEBOX_TEST_MSSQL_URL or Docker)",
  () => onServer(sqlServerUrl, () => openSqlServer({ url: sqlServerUrl, config: patient })),
);
