import { inject } from "vitest";
import { postgresHarness } from "../support/postgres-harness.js";
import { serviceContracts } from "./all-contracts.js";

serviceContracts(postgresHarness(inject("postgresUrl")));
