import { describe, inject } from "vitest";
import { describeInboxService } from "../support/inbox-service/service-suite.js";
import { sqlServerHarness } from "../support/sqlserver-harness.js";

const url = inject("sqlServerUrl");

describe.skipIf(url === "")("SQL Server (needs ONCEBOX_TEST_MSSQL_URL or Docker)", () => {
  describeInboxService(sqlServerHarness(url));
});
