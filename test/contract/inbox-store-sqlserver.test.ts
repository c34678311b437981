import { describe, inject } from "vitest";
import { sqlServerHarness } from "../support/sqlserver-harness.js";
import { sqlInboxStoreContract } from "./inbox-store-contract.js";

const url = inject("sqlServerUrl");

describe.skipIf(url === "")("SQL Server (needs ONCEBOX_TEST_MSSQL_URL or Docker)", () => {
  sqlInboxStoreContract(sqlServerHarness(url));
});
