import { describe, inject } from "vitest";
import { postgresHarness } from "../support/postgres-harness.js";
import { sqliteHarness } from "../support/sqlite-harness.js";
import { sqlServerHarness } from "../support/sqlserver-harness.js";
import { killedStack } from "./killed-stack.js";

const postgresUrl = inject("postgresUrl");
const sqlServerUrl = inject("sqlServerUrl");

killedStack({ ...sqliteHarness("file"), urlOf: ({ db }) => db.id.slice("sqlite:".length) });
killedStack({ ...postgresHarness(postgresUrl), urlOf: () => postgresUrl });

describe.skipIf(sqlServerUrl === "")("needs ONCEBOX_TEST_MSSQL_URL or Docker", () => {
  killedStack({ ...sqlServerHarness(sqlServerUrl), urlOf: () => sqlServerUrl });
});
