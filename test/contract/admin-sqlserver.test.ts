import { describe, inject } from "vitest";
import { describeAdmin } from "../support/admin/admin-suite.js";
import { sqlServerHarness } from "../support/sqlserver-harness.js";

const url = inject("sqlServerUrl");

describe.skipIf(url === "")("SQL Server (needs ONCEBOX_TEST_MSSQL_URL or Docker)", () => {
  describeAdmin(sqlServerHarness(url));
});
