import { inject } from "vitest";
import { postgresHarness } from "../support/postgres-harness.js";
import { middlewareContract } from "./middleware-contract.js";

middlewareContract(postgresHarness(inject("postgresUrl")));
