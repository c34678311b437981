import { sqliteHarness } from "../support/sqlite-harness.js";
import {
  dispatchContract,
  inboxContract,
  migrationContract,
  outboxContract,
  partitionContract,
  tenantContract,
  webhookContract,
} from "./index.js";

const harness = sqliteHarness("file");

inboxContract(harness);
outboxContract(harness);
migrationContract(harness);
dispatchContract(harness);
partitionContract(harness);
tenantContract(harness);
webhookContract(harness);
