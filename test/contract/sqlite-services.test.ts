import { sqliteHarness } from "../support/sqlite-harness.js";
import { serviceContracts } from "./all-contracts.js";
import { sqlInboxStoreContract } from "./inbox-store-contract.js";
import { messagingContract } from "./messaging-contract.js";
import { middlewareContract } from "./middleware-contract.js";

serviceContracts(sqliteHarness("file"));

const memory = sqliteHarness("memory");
sqlInboxStoreContract(memory);
messagingContract(memory);
middlewareContract(memory);
