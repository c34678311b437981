import { inject } from "vitest";
import { sqlInboxStoreContract } from "../../src/testing/inbox-store-contract.js";
import { postgresHarness } from "../support/postgres-harness.js";

sqlInboxStoreContract(postgresHarness(inject("postgresUrl")));
