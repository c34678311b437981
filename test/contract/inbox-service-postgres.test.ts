import { inject } from "vitest";
import { describeInboxService } from "../support/inbox-service/service-suite.js";
import { postgresHarness } from "../support/postgres-harness.js";

describeInboxService(postgresHarness(inject("postgresUrl")));
