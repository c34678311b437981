import { sqliteHarness } from "../../support/sqlite-harness.js";
import { failureTable } from "./failure-table.js";

// A signal takes the same steps as a command without its response; PostgreSQL's table has both.
failureTable({ ...sqliteHarness("file"), urlOf: ({ db }) => db.id.slice("sqlite:".length) }, ["command"]);
