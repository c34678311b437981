import { sqliteHarness } from "../../support/sqlite-harness.js";
import { failureTable } from "./failure-table.js";

failureTable({ ...sqliteHarness("file"), urlOf: ({ db }) => db.id.slice("sqlite:".length) }, [
  "command",
  "signal",
]);
