import { describeInboxService } from "../support/inbox-service/service-suite.js";
import { sqliteHarness } from "../support/sqlite-harness.js";

describeInboxService(sqliteHarness("file"));
