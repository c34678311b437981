import { inject } from "vitest";
import { postgresHarness } from "../../support/postgres-harness.js";
import { sqliteHarness } from "../../support/sqlite-harness.js";
import { failureTable } from "./failure-table.js";

const postgresUrl = inject("postgresUrl");

failureTable({ ...sqliteHarness("file"), urlOf: ({ db }) => db.id.slice("sqlite:".length) });
failureTable({ ...postgresHarness(postgresUrl), urlOf: () => postgresUrl });
