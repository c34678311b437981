import { randomUUID } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import type { Finding } from "../../../src/cli/check-schema.js";
import { exitCodes } from "../../../src/cli/command.js";
import { checkClock, examine } from "../../../src/cli/doctor.js";
import { createInbox, createOutbox, migrate, newOwnerToken } from "../../../src/index.js";
import { schemaObjects } from "../../../src/sql/inspection.js";
import { schemaBatches } from "../../../src/sql/migrate.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { sqlServerDialect } from "../../../src/sql/sqlserver/dialect.js";
import { type TestDatabase, testClock } from "../../contract/harness.js";
import { isBabelfish } from "../../contract/support/database.js";
import { cli } from "../../support/cli.js";
import { dropLogin } from "../../support/drop-login.js";
import { postgresHarness } from "../../support/postgres-harness.js";
import { sqlServerHarness } from "../../support/sqlserver-harness.js";

const day = 86_400_000;

type InSchema = TestDatabase & { readonly schema: string };

async function doctor(...args: string[]): Promise<{ code: number; findings: readonly Finding[] }> {
  const { code, out, err } = await cli("doctor", "--json", ...args);
  expect(err).toBe("");
  return { code, findings: JSON.parse(out).findings };
}

const problemsOf = (findings: readonly Finding[]) => findings.filter(({ level }) => level === "problem");

describe("doctor on SQLite", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "oncebox-doctor-"));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  async function damaged(...statements: string[]) {
    const file = join(folder, `${randomUUID()}.db`);
    const db = openSqlite({ file });
    await migrate(db);
    const run = (text: string) => db.driver.query({ name: "damage", text, unprepared: true }, {});
    for (const text of statements) await run(text);
    return { db, file, url: `sqlite:${file}`, run };
  }

  it("ADD-14 finds nothing in a new database, under any names", async () => {
    const { db, url } = await damaged();
    const tables = { schema: "it's", inbox: 'a"]b', outbox: "o'ut" };
    await migrate(db, tables);
    expect(
      await examine(db, {
        tables,
        retentions: { inbox: { retentionMs: day }, outbox: { retentionMs: day } },
      }),
    ).toEqual([]);
    await db.close();
    expect(await cli("doctor", "--database", url)).toEqual({
      code: exitCodes.ok,
      out: "No problem was found.",
      err: "",
    });
  });

  it("ADD-14 finds what was dropped, and its statement puts it right", async () => {
    const { db, url, run } = await damaged(
      'drop index "InboxReady"',
      'drop trigger "OutboxRemoveState"',
      'drop view "Inbox"',
      'drop view "Outbox"',
      'create view "Outbox" as select 1 as Id',
      'alter table "InboxState" drop column last_error',
    );
    const { code, findings } = await doctor("--database", url);
    expect(code).toBe(exitCodes.failed);
    expect(findings.map(({ message }) => message)).toEqual([
      "The column last_error of InboxState is missing.",
      "The index InboxReady is missing.",
      "The view Inbox is missing.",
      "The trigger OutboxRemoveState is missing.",
      "The view Outbox is not the one of this version.",
    ]);
    for (const { run: fix } of findings)
      if (fix === "oncebox migrate") await migrate(db);
      else await run(fix!);
    await db.close();
    expect(await doctor("--database", url)).toEqual({ code: exitCodes.ok, findings: [] });
    const text = await cli("doctor", "--database", (await damaged('drop index "InboxReady"')).url);
    expect(text.out).toMatch(
      /^problem \(schema, sqlite:.*\): The index .*\n {2}run: create index "InboxReady"/,
    );
  });

  it("ADD-14 finds what the queues' shared tables lack", async () => {
    const without = await damaged("drop table oncebox_operations");
    expect((await doctor("--database", without.url)).findings).toMatchObject([
      { message: "The table oncebox_operations is missing.", run: "oncebox migrate" },
    ]);
    const { db, url, run } = await damaged(
      "alter table oncebox_operations drop column ended_at",
      "alter table oncebox_migrations drop column applied_at",
    );
    const { findings } = await doctor("--database", url);
    expect(findings.map(({ message }) => message)).toEqual([
      "The column applied_at of oncebox_migrations is missing.",
      "The column ended_at of oncebox_operations is missing.",
    ]);
    await run(findings[1]!.run!);
    await db.close();
    expect((await doctor("--database", url)).findings).toHaveLength(1);
    await without.db.close();
  });

  it("ADD-14 finds pending migrations, and those of a newer version", async () => {
    const pending = await damaged("delete from oncebox_migrations where queue like 'outbox%'");
    expect((await doctor("--database", pending.url)).findings).toMatchObject([
      { message: "Migrations of Outbox are missing: 1 outbox.", run: "oncebox migrate" },
    ]);
    const newer = await damaged(
      "insert into oncebox_migrations (queue, number, name) values ('inbox:Inbox', 99, 'x')",
    );
    expect((await doctor("--database", newer.url)).findings).toMatchObject([
      {
        message: "Inbox has the migration 99 of a newer version.",
        run: expect.stringMatching(/^npm install/),
      },
    ]);
  });

  it("ADD-14 finds another journal mode, and leaves it as it is", async () => {
    const { db, file, url, run } = await damaged('drop index "InboxDead"');
    await run("pragma journal_mode = delete");
    await db.close();
    const before = await readFile(file);
    const { findings } = await doctor("--database", url);
    expect(findings.map(({ check, message }) => [check, message])).toEqual([
      ["settings", expect.stringMatching(/is not in WAL mode/)],
      ["schema", "The index InboxDead is missing."],
    ]);
    expect(before.equals(await readFile(file))).toBe(true);
  });

  it("ADD-14 says of a file that is no database, or an empty one, what to do", async () => {
    const file = join(folder, "text.db");
    await writeFile(file, "a text that is long enough not to be taken for an empty file ".repeat(20));
    expect(await cli("doctor", "--database", `sqlite:${file}`)).toMatchObject({
      code: exitCodes.usage,
      err: expect.stringMatching(/is not a SQLite database/),
    });
    await writeFile(file, "");
    const { findings } = await doctor("--database", `sqlite:${file}`);
    expect(findings.map(({ run }) => run)).toEqual([
      expect.stringMatching(/^sqlite3 /),
      "oncebox migrate",
      "oncebox migrate",
    ]);
    expect((await readFile(file)).length).toBe(0);
  });

  it("ADD-14 FUN-07 examines the databases of all tenants, or of one", async () => {
    const [good, bad] = [await damaged(), await damaged('drop index "InboxReady"')];
    const module = (name: string) => JSON.stringify(new URL(`../../../src/${name}`, import.meta.url).href);
    const tenants = [good, bad].map(({ url }, index) => ({ id: `t${index}`, database: url }));
    const app = join(folder, "tenants.ts");
    await writeFile(
      app,
      `import { multiTenant } from ${module("app/tenants.ts")};
      import { tenantsFromConfiguration } from ${module("app/tenants.ts")};
      export default { tenants: multiTenant({ discover: tenantsFromConfiguration(${JSON.stringify(tenants)}) }) };\n`,
    );
    expect((await doctor("--app", app)).findings).toMatchObject([
      { database: bad.url, message: "The index InboxReady is missing." },
    ]);
    expect(await doctor("--app", app, "--tenant", "t0")).toEqual({ code: exitCodes.ok, findings: [] });
    for (const { db } of [good, bad]) await db.close();
  });

  it("ADD-14 finds Done messages that the clean-up has left", async () => {
    const { db, url } = await damaged();
    const inbox = createInbox(db, { clock: testClock(Date.now() - 40 * day) });
    await inbox.enqueue([{ source: "s", messageId: "1", topic: "t", payload: "" }]);
    const owner = newOwnerToken();
    await inbox.ack(owner, await inbox.claim({ owner }));
    await db.close();
    expect((await doctor("--database", url)).findings).toMatchObject([
      { check: "retention", message: expect.stringMatching(/^The inbox .* 30 days/), run: "oncebox cleanup" },
    ]);
  });

  it("ADD-02 ADD-14 dead messages: a note when they are old and kept for ever, a problem past their retention", async () => {
    const { db, url } = await damaged();
    const message = { topic: "t", payload: "" };
    const owner = newOwnerToken();
    const outbox = createOutbox(db, { clock: testClock(Date.now() - 100 * day) });
    await outbox.enqueue(message);
    await outbox.fail(owner, await outbox.claim({ owner }), "410");
    // One that blocks its key is kept on purpose.
    const inbox = createInbox(db, {
      clock: testClock(Date.now() - 100 * day),
      deadInPartition: "block",
    });
    await inbox.enqueue([{ source: "s", messageId: "1", partitionKey: "k", ...message }]);
    await inbox.fail(owner, await inbox.claim({ owner }), "410");
    await db.close();

    expect(await doctor("--database", url)).toMatchObject({
      code: exitCodes.ok,
      findings: [
        {
          ...{ check: "retention", level: "note", run: "oncebox dead groups --queue outbox" },
          message: expect.stringMatching(/^The outbox has messages that died more than 90 days ago/),
        },
      ],
    });
    const app = join(folder, "dead-retention.mjs");
    await writeFile(app, `export default { deadRetentionMs: ${60 * day} };\n`);
    expect(await doctor("--database", url, "--app", app)).toMatchObject({
      code: exitCodes.failed,
      findings: [
        {
          ...{ check: "retention", level: "problem", run: "oncebox cleanup" },
          message: expect.stringMatching(/^The outbox has dead messages .* retention of 60 days/),
        },
      ],
    });
    expect(await cli("cleanup", "--database", url, "--app", app)).toMatchObject({
      code: exitCodes.ok,
      out: expect.stringMatching(/inbox +deleted: done 0 {2}dead 0\noutbox +deleted: done 0 {2}dead 1/),
    });
    expect(await doctor("--database", url, "--app", app)).toEqual({ code: exitCodes.ok, findings: [] });
  });
});

describe("doctor on PostgreSQL", () => {
  const url = inject("postgresUrl");
  let test: InSchema;
  beforeAll(async () => {
    test = (await postgresHarness(url).open()) as InSchema;
  });
  afterAll(() => test.close());

  it("ADD-14 finds what was dropped, and its statement puts it right", async () => {
    const { db, schema, raw } = test;
    const tables = { schema, inbox: "in'b\"ox", outbox: false } as const;
    await migrate(db, { schema });
    await migrate(db, tables);
    expect(
      await examine(db, {
        tables,
        retentions: { inbox: { retentionMs: day }, outbox: { retentionMs: day } },
      }),
    ).toEqual([]);
    expect(await doctor("--schema", schema, "--database", url)).toEqual({ code: exitCodes.ok, findings: [] });
    for (const text of [
      'drop index "inbox_claim"',
      'drop function "inbox_mark"',
      'alter table "inbox_messages" drop constraint "inbox_key"',
      'drop view "inbox"',
      'alter table "outbox_state" drop column crashes',
      'drop trigger "outbox_enqueue_arrivals" on "outbox_pending_arrivals"',
    ])
      await raw(text.replace(/(index|function|table|view|on) "/g, `$1 "${schema}"."`));
    await raw(
      `create or replace function "${schema}"."outbox_unblock_partitions"() returns boolean language sql as 'select true'`,
    );
    const { code, findings } = await doctor("--schema", schema, "--database", url);
    expect(code).toBe(exitCodes.failed);
    expect(findings.map(({ message }) => message)).toEqual([
      "The index inbox_key is missing.",
      "The index inbox_claim is missing.",
      "The view inbox is missing.",
      "The routine inbox_mark is missing.",
      "The column crashes of outbox_state is missing.",
      "The trigger outbox_enqueue_arrivals is missing.",
      "The routine outbox_unblock_partitions is not the one of this version.",
    ]);
    for (const { run } of findings)
      if (run === "oncebox migrate") await migrate(db, { schema });
      else await raw(run!);
    expect(await doctor("--schema", schema, "--database", url)).toEqual({ code: exitCodes.ok, findings: [] });
  });

  it("ADD-14 finds the grants that a user lacks, and its statements grant what the users' script grants", async () => {
    const { db, schema, raw } = test;
    await migrate(db, { schema });
    const role = `doctor_${randomUUID().slice(0, 8)}`;
    await raw(`create role ${role} login password 'x'`);
    const target = new URL(url);
    target.username = role;
    target.password = "x";
    const args = ["--schema", schema, "--database", target.href];
    try {
      const { code, findings } = await doctor(...args);
      expect(code).toBe(exitCodes.failed);
      const [first] = problemsOf(findings);
      expect(first).toMatchObject({ check: "permissions" });
      expect(first!.message).toContain(
        `The user ${role} lacks usage on ${schema}; select, insert, update, delete on inbox_messages;`,
      );
      const grants = problemsOf(findings)
        .map(({ run }) => run!)
        .join(";\n");
      await raw(grants);
      const after = await doctor(...args);
      expect([after.code, problemsOf(after.findings)]).toEqual([exitCodes.ok, []]);
      const script = await readFile("infra/sql/users-postgres.sql", "utf8");
      expect(grantsIn(grants.replaceAll(`"${schema}"`, '"infra"'), `"${role}"`)).toEqual(
        grantsIn(script, "oncebox_functions"),
      );
    } finally {
      await raw(`drop owned by ${role}`);
      await raw(`drop role ${role}`);
    }
  });

  it("ADD-14 finds a clock that differs by more than the round trip can", async () => {
    const { db } = test;
    expect(await checkClock(db)).toEqual([]);
    const skewed = (ms: number) => checkClock(db, () => Date.now() + ms);
    expect(await skewed(60_000)).toMatchObject([
      { message: expect.stringMatching(/ (59|60) s ahead of the database/) },
    ]);
    expect(await skewed(-60_000)).toMatchObject([
      { message: expect.stringMatching(/ (59|60) s behind the database/) },
    ]);
  });
});

/** Each table with the privileges of a role. */
function grantsIn(sql: string, role: string): Readonly<Record<string, string>> {
  const found: [string, string][] = [];
  for (const [, privileges, tables, to] of sql.matchAll(/^grant ([a-z, ]+) on ("[^;]*) to ([^;\n]+)/gm))
    if (to === role) for (const table of tables!.split(", ")) found.push([table, privileges!]);
  return Object.fromEntries(found.sort());
}

describe("doctor on SQL Server, without a server", () => {
  const { inspection, names } = sqlServerDialect;

  it("ADD-14 needs the grants of the users' script", async () => {
    const needed = (["inbox", "outbox"] as const).flatMap((kind) => {
      const queue = names(kind, "infra", kind === "inbox" ? "Inbox" : "Outbox");
      return inspection.needed(queue).map((one) => inspection.grant(queue, one, "oncebox_functions"));
    });
    const script = await readFile("infra/sql/users-sqlserver.sql", "utf8");
    const granted = [...script.matchAll(/^(grant .* to \[oncebox_functions\]);$/gm)].map(
      ([, grant]) => grant,
    );
    expect(granted.length).toBeGreaterThan(40);
    expect(needed.sort()).toEqual(granted.sort());
  });

  it("ADD-14 finds the settings that do not fit", () => {
    const wrong = (snapshot: boolean, compatibility: number, version = 16) =>
      inspection.wrongSettings({ snapshot, compatibility, version });
    expect(wrong(true, 150)).toEqual([]);
    expect(wrong(true, 130, 14)).toEqual([]);
    expect(wrong(true, 130, 13)).toMatchObject([
      { message: expect.stringMatching(/2017/), tolerable: false },
    ]);
    expect(wrong(false, 120)).toMatchObject([
      { run: "alter database current set compatibility_level = 150", tolerable: false },
      { run: expect.stringMatching(/read_committed_snapshot on/), tolerable: true },
    ]);
  });

  it("ADD-14 knows every procedure and index of the schema", () => {
    const batches = schemaBatches(sqlServerDialect);
    const objects = schemaObjects(batches);
    const ofKind = (kind: string) => objects.filter((object) => object.kind === kind).map(({ name }) => name);
    expect(ofKind("routine")).toContain("Outbox_ExpireDead");
    expect(ofKind("index")).toEqual(expect.arrayContaining(["Inbox_Key", "Inbox_Dead", "OutboxState_PK"]));
    const tables = batches.join("\n").match(/^\s*create table /gm)!.length;
    expect(ofKind("table")).toHaveLength(tables);
    const named = schemaObjects(schemaBatches(sqlServerDialect, { schema: "a(b)" }));
    const columnsOf = (table: string) => named.find(({ name }) => name === table)!.columns;
    expect(columnsOf("oncebox_migrations").map(({ name }) => name)).toEqual([
      "queue",
      "number",
      "name",
      "applied_at",
    ]);
    expect(columnsOf("oncebox_operations").map(({ name }) => name)).toContain("ended_at");
    expect(columnsOf("InboxState").map(({ name }) => name)).toContain("last_error");
  });
});

const sqlServerUrl = inject("sqlServerUrl");
describe.skipIf(sqlServerUrl === "")("doctor on SQL Server (needs ONCEBOX_TEST_MSSQL_URL or Docker)", () => {
  const login = `doctor_${randomUUID().slice(0, 8)}`;
  let test: InSchema;
  beforeAll(async () => {
    test = (await sqlServerHarness(sqlServerUrl).open()) as InSchema;
    await migrate(test.db, { schema: test.schema });
  }, 120_000);
  afterAll(async () => {
    await test.close(); // with what the user has rights on
    await dropLogin(sqlServerUrl, login);
  }, 120_000);

  it("ADD-14 finds what was dropped", { timeout: 240_000 }, async () => {
    const { schema, raw } = test;
    const args = ["--schema", schema, "--database", sqlServerUrl];
    const before = problemsOf((await doctor(...args)).findings).map(({ message }) => message);
    // Babelfish has its own forms of some routines: see test/support/babelfish-schema.ts.
    const others = (await isBabelfish(test)) ? before : [];
    expect(others.every((message) => message.endsWith("is not the one of this version."))).toBe(true);
    expect(before).toEqual(others);
    await raw(`drop index [Inbox_Ready] on [${schema}].[InboxState]`);
    await raw(`drop procedure [${schema}].[Outbox_Claim]`);
    await raw(`alter procedure [${schema}].[Outbox_Ack] as return 0`);
    const { code, findings } = await doctor(...args);
    expect(code).toBe(exitCodes.failed);
    const found = problemsOf(findings).map(({ message }) => message);
    expect(found.filter((message) => !others.includes(message))).toEqual([
      "The index Inbox_Ready is missing.",
      "The routine Outbox_Claim is missing.",
      "The routine Outbox_Ack is not the one of this version.",
    ]);
  });

  it("ADD-14 finds the grants that a user lacks", { timeout: 240_000 }, async () => {
    const { db, schema, raw } = test;
    await migrate(db, { schema });
    const own = new URL(sqlServerUrl);
    own.username = login;
    own.password = `Pw-${randomUUID()}`;
    await raw(`create login [${login}] with password = '${own.password}'`);
    await raw(`create user [${login}] for login [${login}]`);
    await raw(`grant execute on [${schema}].[Inbox_Claim] to [${login}]`);
    const { code, findings } = await doctor("--schema", schema, "--database", own.href);
    expect(code).toBe(exitCodes.failed);
    expect(findings.find(({ check }) => check === "schema")).toMatchObject({
      level: "note",
      message: expect.stringMatching(/does not see tables/),
    });
    const lacking = findings.filter(({ check }) => check === "permissions");
    expect(lacking).toHaveLength(2); // one for each queue
    const grants = lacking.flatMap(({ run }) => run!.split(";\n"));
    expect(grants).toContain(`grant execute on [${schema}].[Inbox_Ack] to [${login}]`);
    expect(grants).not.toContain(`grant execute on [${schema}].[Inbox_Claim] to [${login}]`);
    for (const grant of grants) await raw(grant);
    const after = await doctor("--schema", schema, "--database", own.href);
    // On Babelfish a procedure does not read tables for its caller, who needs rights on them.
    const left = (await isBabelfish(test))
      ? [/^The messages of Inbox cannot/, /^The messages of Outbox cannot/]
      : [];
    expect(problemsOf(after.findings).map(({ message }) => message)).toEqual(
      left.map((words) => expect.stringMatching(words)),
    );
  });
});
