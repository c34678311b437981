import { sqliteHarness } from "../support/sqlite-harness.js";
import { conformance } from "./conformance.js";

conformance(sqliteHarness("memory"), 40);
