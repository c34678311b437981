import { sqliteHarness } from "../support/sqlite-harness.js";
import { messagingContract } from "./messaging-contract.js";

messagingContract(sqliteHarness("file"));
messagingContract(sqliteHarness("memory"));
