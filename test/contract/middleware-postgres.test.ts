import { inject } from "vitest";
import { middlewareContract } from "../../src/testing/middleware-contract.js";
import { postgresHarness } from "../support/postgres-harness.js";

middlewareContract(postgresHarness(inject("postgresUrl")));
