import { inject } from "vitest";
import { postgresHarness } from "../support/postgres-harness.js";
import { sqlInboxStoreContract } from "./inbox-store-contract.js";

sqlInboxStoreContract(postgresHarness(inject("postgresUrl")));
