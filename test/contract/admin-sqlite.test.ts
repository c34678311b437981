import { describeAdmin } from "../support/admin/admin-suite.js";
import { sqliteHarness } from "../support/sqlite-harness.js";

describeAdmin(sqliteHarness("file"));
