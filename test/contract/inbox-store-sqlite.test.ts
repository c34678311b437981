import { sqlInboxStoreContract } from "../../src/testing/inbox-store-contract.js";
import { sqliteHarness } from "../support/sqlite-harness.js";

sqlInboxStoreContract(sqliteHarness("file"));
sqlInboxStoreContract(sqliteHarness("memory"));
