import { describe, expect, inject, it } from "vitest";
import { migrate } from "../../src/index.js";
import { scriptBatches } from "../support/sqlcmd-script.js";
import { sqlServerHarness } from "../support/sqlserver-harness.js";
import { useDatabase } from "./harness.js";
import { newName, useInbox, useOutbox } from "./migration/support.js";

const url = inject("sqlServerUrl");

describe.skipIf(url === "")("SQL Server (needs ONCEBOX_TEST_MSSQL_URL or Docker)", () => {
  const database = useDatabase(sqlServerHarness(url));

  it("OBX-094 IBX-117 infra/sql/sqlserver.sql, run twice under other names, is what migrate would have made", async () => {
    const { db, raw } = database();
    const names = { schema: database().schema!, inbox: newName(), outbox: newName() };
    for (const _ of ["first", "again"]) for (const batch of scriptBatches(names)) await raw(batch);

    expect(await migrate(db, names)).toMatchObject({ applied: [] });
    await useOutbox(db, { schema: names.schema, table: names.outbox });
    await useInbox(db, { schema: names.schema, table: names.inbox });
  });
});
