import { sqliteHarness } from "../support/sqlite-harness.js";
import { telemetrySuite } from "../support/telemetry-suite.js";

telemetrySuite(sqliteHarness("file"));
