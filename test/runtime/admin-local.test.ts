import { startLocalRun } from "../../src/adapters/local/local-run.js";
import { defineApp } from "../../src/app/definition.js";
import { readEnvironment } from "../../src/config/environment.js";
import { collectLog } from "../support/inbox-service/start-service.js";
import { describeAdminFunctions } from "./admin-scenarios.js";

describeAdminFunctions({
  name: "the local run",
  async start(env) {
    const log = collectLog();
    const environment = await readEnvironment({ ...env, PORT: "0" });
    const admin = { tokens: { from: "env", name: "ONCEBOX_ADMIN_TOKENS" }, callMs: 3_000 } as const;
    const app = defineApp({ schema: env.SCENARIO_SCHEMA!, admin });
    const local = await startLocalRun(app, { environment, logger: log.logger });
    return { url: local.url, logs: log.lines, stop: () => local.stop() };
  },
});
