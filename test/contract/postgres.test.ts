import { inject } from "vitest";
import {
  dispatchContract,
  inboxContract,
  migrationContract,
  outboxContract,
  partitionContract,
  tenantContract,
  webhookContract,
} from "../../src/testing/index.js";
import { postgresHarness } from "../support/postgres-harness.js";

const harness = postgresHarness(inject("postgresUrl"));

inboxContract(harness);
outboxContract(harness);
migrationContract(harness);
dispatchContract(harness);
partitionContract(harness);
tenantContract(harness);
webhookContract(harness);
