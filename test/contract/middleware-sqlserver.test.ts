import { describe, inject } from "vitest";
import { sqlServerHarness } from "../support/sqlserver-harness.js";
import { middlewareContract } from "./middleware-contract.js";

const url = inject("sqlServerUrl");

describe.skipIf(url === "")("SQL Server (needs ONCEBOX_TEST_MSSQL_URL or Docker)", () => {
  middlewareContract(sqlServerHarness(url));
});
