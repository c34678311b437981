import { describe, inject } from "vitest";
import { sqlInboxStoreContract } from "../../src/testing/inbox-store-contract.js";
import { sqlServerHarness } from "../support/sqlserver-harness.js";

const url = inject("sqlServerUrl");

describe.skipIf(url === "")("SQL Server (needs ONCEBOX_TEST_MSSQL_URL or Docker)", () => {
  sqlInboxStoreContract(sqlServerHarness(url));
});
