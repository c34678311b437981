import { inject } from "vitest";
import { postgresHarness } from "../support/postgres-harness.js";
import { conformance } from "./conformance.js";

conformance(postgresHarness(inject("postgresUrl")), 8);
