import { randomUUID } from "node:crypto";
import { expect, it } from "vitest";
import { omitUndefined } from "../../../src/base/defined.js";
import { silentLogger } from "../../../src/base/logger.js";
import { catalogueTable, tenantsFromCatalogue } from "../../../src/tenants/discovery/sources.js";
import type { TestDatabase } from "../harness.js";

const context = () => ({
  signal: AbortSignal.timeout(30_000),
  resolveSecret: () => Promise.reject(new Error("no secrets here")),
  logger: silentLogger,
});

/** FUN-08: a table in any database lists the tenants. */
export function catalogueTests(database: () => TestDatabase): void {
  it("FUN-08 reads the current tenants from a catalogue table each time", async () => {
    const { db, schema, raw } = database();
    const names = { table: `tenants_${randomUUID().slice(0, 8)}`, ...omitUndefined({ schema }) };
    await raw(catalogueTable(names));
    const discover = tenantsFromCatalogue({ database: db, ...names });
    expect(await discover(context())).toEqual([]);
    const name = schema === undefined ? names.table : `${schema}.${names.table}`;
    await raw(`insert into ${name} (id, database_url) values ('acme', 'sqlite:acme.db')`);
    await raw(
      `insert into ${name} (id, database_url, schema_name, inbox_table, outbox_table) values ('globex', 'postgres://db/globex', 'app', 'incoming', 'outgoing')`,
    );
    const found = [...(await discover(context()))].sort((a, b) => (a.id < b.id ? -1 : 1));
    expect(found).toEqual([
      { id: "acme", database: "sqlite:acme.db", schema: undefined, inbox: undefined, outbox: undefined },
      {
        id: "globex",
        database: "postgres://db/globex",
        schema: "app",
        inbox: "incoming",
        outbox: "outgoing",
      },
    ]);
    await raw(`delete from ${name} where id = 'acme'`);
    expect((await discover(context())).map((tenant) => tenant.id)).toEqual(["globex"]);
  });

  it("FUN-08 a missing catalogue table is an error, so that the last list stays in use", async () => {
    const discover = tenantsFromCatalogue({ database: database().db, table: "nowhere_to_be_found" });
    await expect(discover(context())).rejects.toThrow();
  });
}
