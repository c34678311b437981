import { inject } from "vitest";
import { messagingContract } from "../../src/testing/messaging-contract.js";
import { postgresHarness } from "../support/postgres-harness.js";

messagingContract(postgresHarness(inject("postgresUrl")));
