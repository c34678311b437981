import {
  dispatchContract,
  inboxContract,
  migrationContract,
  outboxContract,
  webhookContract,
} from "../../src/testing/index.js";
import { sqliteHarness } from "../support/sqlite-harness.js";

const harness = sqliteHarness("memory");

inboxContract(harness);
outboxContract(harness);
migrationContract(harness);
dispatchContract(harness);
webhookContract(harness);
