import { afterAll, beforeAll, describe, inject, it } from "vitest";
import { isSlowServer } from "../../support/sqlserver-harness.js";
import { patientScenario } from "../patient-scenario.js";
import { describeFunctions, openScenario, stripeWebhook } from "../scenarios.js";
import { type BuiltApp, buildApp } from "./built-app.js";
import { startFunctionsHost } from "./functions-host.js";

const url = inject("sqlServerUrl");
let app: BuiltApp | undefined;
beforeAll(async () => {
  if (url !== "") app = await buildApp(undefined, "sqlserver");
});
afterAll(() => app?.remove());
const start = (env: Readonly<Record<string, string>>, timeoutMs: number) =>
  startFunctionsHost(app!.folder, env, timeoutMs);

describe.skipIf(url === "")(
  "SQL Server (needs ONCEBOX_TEST_MSSQL_URL or Docker)",
  { timeout: 300_000 },
  () => {
    it("FUN-01 FUN-03 FUN-04 FUN-12 from the webhook to the clean-up, as a provider and timers drive it", async () => {
      const scenario = await openScenario("sqlserver");
      const functions = await start({ ...scenario.env, SCENARIO_PATIENT: "1" }, 120_000);
      try {
        await patientScenario(
          {
            async send(id) {
              const response = await functions.webhook(stripeWebhook(id));
              const { outcome } = (await response.json()) as { outcome?: string };
              return { status: response.status, outcome };
            },
            run: (name) => functions.run(name),
          },
          scenario,
        );
      } finally {
        await functions.stop();
        await scenario.close();
      }
    });
  },
);

// Its functions have deadlines of seconds, which a stand-in for SQL Server does not keep.
describe.skipIf(await isSlowServer(url))("a quick SQL Server", { timeout: 300_000 }, () =>
  describeFunctions({ name: "Azure's programming model, on SQL Server", database: "sqlserver", start }),
);
