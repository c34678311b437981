import {
  dispatchContract,
  inboxContract,
  migrationContract,
  outboxContract,
  partitionContract,
  tenantContract,
  webhookContract,
} from "../../src/testing/index.js";
import { sqliteHarness } from "../support/sqlite-harness.js";

const harness = sqliteHarness("memory");

inboxContract(harness);
outboxContract(harness);
migrationContract(harness);
dispatchContract(harness);
partitionContract(harness);
tenantContract(harness);
webhookContract(harness);
