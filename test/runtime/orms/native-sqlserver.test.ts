import { describe, inject } from "vitest";
import { defineApp, migrate } from "../../../src/index.js";
import { sqlServerHarness } from "../../support/sqlserver-harness.js";
import { type NativeDatabase, nativeSuite } from "./native-suite.js";

const url = inject("sqlServerUrl");

async function open(): Promise<NativeDatabase> {
  const { db, raw, close, schema = "" } = await sqlServerHarness(url).open();
  await migrate(db, { schema });
  await raw(`create table ${schema}.orders (id int not null primary key)`);
  return {
    url,
    schema,
    isMigrated: true,
    countOrders: async () => Number((await raw(`select count(*) as n from ${schema}.orders`))[0]!.n),
    close,
  };
}

// some servers that speak T-SQL need seconds for the first statement of each session
describe.skipIf(url === "")(
  "SQL Server (needs ONCEBOX_TEST_MSSQL_URL or Docker)",
  { timeout: 300_000 },
  () => {
    nativeSuite<"sqlserver">("mssql itself", {
      define: defineApp.sqlserver,
      open,
      insertOrder: (tx, id, schema) =>
        tx.native.request().input("id", id).query(`insert into ${schema}.orders (id) values (@id)`),
    });
  },
);
