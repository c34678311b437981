import { inject } from "vitest";
import { describeAdmin } from "../support/admin/admin-suite.js";
import { postgresHarness } from "../support/postgres-harness.js";

describeAdmin(postgresHarness(inject("postgresUrl")));
