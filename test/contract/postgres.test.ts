import { inject } from "vitest";
import { postgresHarness } from "../support/postgres-harness.js";
import {
  dispatchContract,
  inboxContract,
  migrationContract,
  outboxContract,
  partitionContract,
  tenantContract,
  webhookContract,
} from "./index.js";

const harness = postgresHarness(inject("postgresUrl"));

inboxContract(harness);
outboxContract(harness);
migrationContract(harness);
dispatchContract(harness);
partitionContract(harness);
tenantContract(harness);
webhookContract(harness);
