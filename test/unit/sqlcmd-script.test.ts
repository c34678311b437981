import { describe, expect, it } from "vitest";
import { schemaBatches } from "../../src/sql/migrate.js";
import { sqlServerDialect } from "../../src/sql/sqlserver/dialect.js";
import { sqlcmdBatches } from "../support/sqlcmd-batches.js";
import { readScript, type ScriptNames, schemaOfScript, scriptBatches } from "../support/sqlcmd-script.js";

const others: ScriptNames = { schema: "my schema", inbox: "order-inbox", outbox: "Sent messages" };
const created = /create (?:or alter )?(table|view|function|procedure) (\[[^\]]+\]\.\[[^\]]+\])/g;
const routinesIn = (file: string) =>
  [...readScript(file).matchAll(/^create or alter (?:procedure|function|view) (\S+)/gm)].map(
    ([, name]) => name!,
  );

describe("infra/sql/sqlserver.sql, as sqlcmd reads it", () => {
  it.each([
    ["the default names", sqlServerDialect.defaults],
    ["other names", others],
  ])("IBX-117 OBX-094 with %s has the batches that migrate runs, and no others", (_, names) => {
    const batches = schemaOfScript(names);
    expect([...batches].sort()).toEqual([...schemaBatches(sqlServerDialect, names)].sort());
    expect(batches.length).toBeGreaterThan(60);
  });

  it("IBX-117 OBX-094 creates tables, views and functions before anything that names them", () => {
    const batches = schemaOfScript();
    const dataIn = (batch: string) =>
      [...batch.matchAll(created)].filter(([, kind]) => kind !== "procedure").map(([, , name]) => name!);
    const all = new Set(batches.flatMap(dataIn));
    const known = new Set<string>();
    for (const batch of batches) {
      for (const name of dataIn(batch)) known.add(name);
      const named = batch.match(/\[[^\]]+\]\.\[[^\]]+\]/g) ?? [];
      const early = named.filter((name) => all.has(name) && !known.has(name));
      expect(early, batch.slice(0, 100)).toEqual([]);
    }
    expect(known.size).toBeGreaterThan(20);
  });

  it("IBX-117 OBX-094 records no migration, and commits nothing, without the file with the tables", () => {
    const script = readScript("sqlserver.sql");
    expect(script.match(/begin transaction;\n\n {2}create table/g)).toHaveLength(2);
    expect(script).not.toContain("insert into [$(Schema)].[oncebox_migrations]");
    expect(readScript("sqlserver-tables.sql")).toMatch(
      /\n {2}insert into \[\$\(Schema\)\]\.\[oncebox_migrations\].*;\n\n {2}commit transaction;\n$/,
    );
  });

  it("IBX-117 OBX-094 runs after a client without SQLCMD mode has stopped it", () => {
    const [first, guard] = scriptBatches();
    expect(first).toMatch(/\nset noexec off$/);
    expect(guard).toMatch(/^if N'infra' = N'\$' \+ N'\(Schema\)'\n[\s\S]* set noexec on;\nend$/);
  });

  it("IBX-117 OBX-094 has each procedure that both queues share once", () => {
    const shared = routinesIn("sqlserver-queue.sql");
    expect(shared.length).toBeGreaterThan(15);
    expect(new Set(shared).size).toBe(shared.length);
    expect(routinesIn("sqlserver.sql").filter((name) => shared.includes(name))).toEqual([]);
    expect(readScript("sqlserver-tables.sql")).toContain("create table [$(Schema)].[$(Queue)Controls]");
    for (const table of ["Inbox", "Outbox", "infra"])
      expect(readScript("sqlserver-queue.sql")).not.toContain(`[${table}`);
  });
});

const start = ":on error exit\n:setvar X one\n";
const batchesOf = (text: string, files: Record<string, string> = {}) =>
  sqlcmdBatches("main", (path) => ({ main: `${start}${text}`, ...files })[path]!);

describe("the tests' reader of sqlcmd scripts", () => {
  it("replaces variables in names and strings, and reads files into an open batch", () => {
    const text = `-- only a comment is no batch\ngo\nselect N'$(x)' from [$(X)]\n:setvar Y 2\n`;
    expect(() => batchesOf(`${text}go\n`)).toThrow(/:setvar within a batch/);
    expect(
      batchesOf(`begin\n:r $(X).sql\nend\ngo\n:setvar X "t ""w"" o"\nselect '$(X)'\ngo\n`, {
        "one.sql": "  select N'$(x)' from [$(X)];\n",
      }),
    ).toEqual(["begin\n  select N'one' from [one];\nend", `select 't "w" o'`]);
  });

  it.each([
    ["a variable that has no value", "select $(Y)\ngo\n", /Y has no value/],
    ["a variable within a comment", "select 1 -- $(X)\ngo\n", /within a comment/],
    ["a line that is a command by accident", "select 1\nexit\ngo\n", /as a command: exit/],
    ["a command that is not at the start of its line", "select 1\n :r x\ngo\n", /as a command/],
    ["a command that it does not know", ":connect x\n", /Not a command/],
    ["an open quotation", "select 'x\ngo\n", /quotation is open/],
    ["a value with a space that is not quoted", ":setvar Y a b\n", /in double quotes/],
    ["a script that does not end with go", "select 1\n", /end with go/],
    ["a file that ends with an empty line", "go\n\n", /one line feed/],
  ])("refuses %s", (_, text, reason) => {
    expect(() => batchesOf(text)).toThrow(reason);
  });

  it("refuses a batch that could fail unnoticed", () => {
    expect(() => sqlcmdBatches("main", () => "select 1\ngo\n")).toThrow(/on error exit/);
  });
});
