import { inject } from "vitest";
import { postgresHarness } from "../../support/postgres-harness.js";
import { failureTable } from "./failure-table.js";

const url = inject("postgresUrl");

failureTable({ ...postgresHarness(url), urlOf: () => url }, ["command"]);
