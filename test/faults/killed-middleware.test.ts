import { describe, inject } from "vitest";
import { postgresHarness } from "../support/postgres-harness.js";
import { sqliteHarness } from "../support/sqlite-harness.js";
import { sqlServerHarness } from "../support/sqlserver-harness.js";
import { killedMiddleware } from "./killed-middleware.js";

const postgresUrl = inject("postgresUrl");
const sqlServerUrl = inject("sqlServerUrl");

killedMiddleware({ ...sqliteHarness("file"), urlOf: ({ db }) => db.id.slice("sqlite:".length) });
killedMiddleware({ ...postgresHarness(postgresUrl), urlOf: () => postgresUrl });

describe.skipIf(sqlServerUrl === "")("needs ONCEBOX_TEST_MSSQL_URL or Docker", () => {
  killedMiddleware({ ...sqlServerHarness(sqlServerUrl), urlOf: () => sqlServerUrl });
});
