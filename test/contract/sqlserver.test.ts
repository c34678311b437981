import { describe, inject } from "vitest";
import { sqlServerHarness } from "../support/sqlserver-harness.js";
import {
  dispatchContract,
  inboxContract,
  migrationContract,
  outboxContract,
  partitionContract,
  tenantContract,
  webhookContract,
} from "./index.js";

const url = inject("sqlServerUrl");

describe.skipIf(url === "")("SQL Server (needs ONCEBOX_TEST_MSSQL_URL or Docker)", () => {
  const harness = sqlServerHarness(url);

  inboxContract(harness);
  outboxContract(harness);
  migrationContract(harness);
  dispatchContract(harness);
  partitionContract(harness);
  tenantContract(harness);
  webhookContract(harness);
});
