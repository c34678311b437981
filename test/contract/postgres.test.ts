import { inject } from "vitest";
import {
  dispatchContract,
  inboxContract,
  migrationContract,
  outboxContract,
  partitionContract,
  webhookContract,
} from "../../src/testing/index.js";
import { postgresHarness } from "../support/postgres-harness.js";

const harness = postgresHarness(inject("postgresUrl"));

inboxContract(harness);
outboxContract(harness);
migrationContract(harness);
dispatchContract(harness);
partitionContract(harness);
webhookContract(harness);
