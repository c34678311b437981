import {
  dispatchContract,
  inboxContract,
  migrationContract,
  outboxContract,
  partitionContract,
  webhookContract,
} from "../../src/testing/index.js";
import { sqliteHarness } from "../support/sqlite-harness.js";

const harness = sqliteHarness("memory");

inboxContract(harness);
outboxContract(harness);
migrationContract(harness);
dispatchContract(harness);
partitionContract(harness);
webhookContract(harness);
