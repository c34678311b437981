import { describe, inject } from "vitest";
import { sqlServerHarness } from "../support/sqlserver-harness.js";
import { queueContracts } from "./all-contracts.js";

const url = inject("sqlServerUrl");

describe.skipIf(url === "")("SQL Server (needs ONCEBOX_TEST_MSSQL_URL or Docker)", () => {
  queueContracts(sqlServerHarness(url));
});
