import { sqliteHarness } from "../support/sqlite-harness.js";
import { queueContracts } from "./all-contracts.js";

queueContracts(sqliteHarness("file"));
