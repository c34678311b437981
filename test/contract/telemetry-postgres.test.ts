import { inject } from "vitest";
import { postgresHarness } from "../support/postgres-harness.js";
import { telemetrySuite } from "../support/telemetry-suite.js";

telemetrySuite(postgresHarness(inject("postgresUrl")));
