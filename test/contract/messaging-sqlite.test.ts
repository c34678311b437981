import { messagingContract } from "../../src/testing/messaging-contract.js";
import { sqliteHarness } from "../support/sqlite-harness.js";

messagingContract(sqliteHarness("file"));
messagingContract(sqliteHarness("memory"));
