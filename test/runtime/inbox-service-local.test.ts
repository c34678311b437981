import { startLocalRun } from "../../src/adapters/local/local-run.js";
import { defineApp } from "../../src/app/definition.js";
import { readEnvironment } from "../../src/config/environment.js";
import { collectLog } from "../support/inbox-service/start-service.js";
import { describeServiceFunctions } from "./inbox-service-scenarios.js";

describeServiceFunctions({
  name: "the local run",
  async start(env) {
    const log = collectLog();
    const environment = await readEnvironment({ ...env, PORT: "0" });
    const service = { tokens: { from: "env", name: "INBOX_SERVICE_TOKENS" }, callMs: 3_000 } as const;
    const app = defineApp({ schema: env.SCENARIO_SCHEMA!, service });
    const local = await startLocalRun(app, { environment, logger: log.logger });
    return { url: local.url, logs: log.lines, stop: () => local.stop() };
  },
});
