import { inject } from "vitest";
import { postgresHarness } from "../support/postgres-harness.js";
import { queueContracts } from "./all-contracts.js";

queueContracts(postgresHarness(inject("postgresUrl")));
