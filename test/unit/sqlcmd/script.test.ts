import { describe, expect, it } from "vitest";
import { schemaBatches } from "../../../src/sql/migrate.js";
import { sqlServerDialect } from "../../../src/sql/sqlserver/index.js";
import { readScript, type ScriptNames, schemaOfScript, scriptBatches } from "../../support/sqlcmd-script.js";

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

  it("IBX-117 OBX-094 records no migration, and commits nothing, without the file of the tables", () => {
    const script = readScript("sqlserver.sql");
    expect(script.match(/begin transaction;\n\n {2}create table/g)).toHaveLength(2);
    expect(script).not.toContain("insert into [$(Schema)].[oncebox_migrations]");
    expect(readScript("sqlserver-tables.sql")).toMatch(
      /\n {2}insert into \[\$\(Schema\)\]\.\[oncebox_migrations\].*;\n\n {2}commit transaction;\n$/,
    );
  });

  it("IBX-117 OBX-094 runs in a window in which a client without SQLCMD mode has stopped it before", () => {
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
