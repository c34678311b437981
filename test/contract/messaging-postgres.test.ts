import { inject } from "vitest";
import { postgresHarness } from "../support/postgres-harness.js";
import { messagingContract } from "./messaging-contract.js";

messagingContract(postgresHarness(inject("postgresUrl")));
