import { randomUUID } from "node:crypto";
import { expect, it } from "vitest";
import { silentLogger } from "../../base/logger.js";
import { catalogueTable, tenantsFromCatalogue } from "../../tenants/discovery/from-catalogue.js";
import type { TestDatabase } from "../harness.js";

const context = () => ({
  signal: AbortSignal.timeout(30_000),
  resolveSecret: () => Promise.reject(new Error("no secrets here")),
  logger: silentLogger,
});

/** FUN-08: a table of any of the databases lists the tenants. */
export function catalogueTests(database: () => TestDatabase): void {
  it("FUN-08 reads tenants from a catalogue table, each time as it is", async () => {
    const { db, schema, raw } = database();
    const place = {
      table: `tenants_${randomUUID().slice(0, 8)}`,
      ...(schema === undefined ? {} : { schema }),
    };
    await raw(catalogueTable(place));
    const discover = tenantsFromCatalogue({ database: db, ...place });
    expect(await discover(context())).toEqual([]);
    const name = schema === undefined ? place.table : `${schema}.${place.table}`;
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

  it("FUN-08 a catalogue that is not there is an error, which keeps the last list", async () => {
    const discover = tenantsFromCatalogue({ database: database().db, table: "nowhere_to_be_found" });
    await expect(discover(context())).rejects.toThrow();
  });
}
