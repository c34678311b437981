import { describe, expect, it } from "vitest";
import { schemaBatches } from "../../../src/sql/migrate.js";
import { sqlServerDialect } from "../../../src/sql/sqlserver/index.js";
import { readScript, type ScriptNames, schemaOfScript } from "../../support/sqlcmd-script.js";

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
