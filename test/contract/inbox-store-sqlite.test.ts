import { sqliteHarness } from "../support/sqlite-harness.js";
import { sqlInboxStoreContract } from "./inbox-store-contract.js";

sqlInboxStoreContract(sqliteHarness("file"));
sqlInboxStoreContract(sqliteHarness("memory"));
