import { describe, inject } from "vitest";
import { sqlServerHarness } from "../support/sqlserver-harness.js";
import { serviceContracts } from "./all-contracts.js";

const url = inject("sqlServerUrl");

describe.skipIf(url === "")("SQL Server (needs ONCEBOX_TEST_MSSQL_URL or Docker)", () => {
  serviceContracts(sqlServerHarness(url));
});
