import { sqliteHarness } from "../support/sqlite-harness.js";
import { messagingContract, middlewareContract, serviceContracts } from "./all-contracts.js";
import { sqlInboxStoreContract } from "./inbox-store-contract.js";

serviceContracts(sqliteHarness("file"));

const memory = sqliteHarness("memory");
sqlInboxStoreContract(memory);
messagingContract(memory);
middlewareContract(memory);
