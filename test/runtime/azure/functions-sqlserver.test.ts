import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { toEnvelope } from "../../../src/publishers/azure.js";
import { isSlowServer } from "../../support/sqlserver-harness.js";
import { patientScenario } from "../patient-scenario.js";
import { describeFunctions, openScenario, stripeWebhook } from "../scenarios.js";
import { type Azurite, createQueue, startAzurite } from "./azurite.js";
import { type BuiltApp, buildApp } from "./built-app.js";
import { startFunctionsHost } from "./functions-host.js";
import { localTls } from "./local-tls.js";

const url = inject("sqlServerUrl");
let app: BuiltApp | undefined;
let azurite: Azurite | undefined;
beforeAll(async () => {
  if (url !== "") [app, azurite] = await Promise.all([buildApp(undefined, "sqlserver"), startAzurite()]);
});
afterAll(() => Promise.all([app?.remove(), azurite?.stop()]));
const start = (env: Readonly<Record<string, string>>, timeoutMs: number) =>
  startFunctionsHost(app!.folder, env, timeoutMs);

describe.skipIf(url === "")(
  "SQL Server (needs ONCEBOX_TEST_MSSQL_URL or Docker)",
  { timeout: 300_000 },
  () => {
    it("FUN-01 FUN-03 FUN-04 FUN-12 MID-11 from the webhook and the queue to the clean-up", async () => {
      const scenario = await openScenario("sqlserver");
      const queue = await createQueue(azurite!, "orders");
      const env = {
        ...localTls.env,
        SCENARIO_PATIENT: "1",
        ONCEBOX_CONSUME_QUEUE: "orders",
        AzureWebJobsStorage: azurite!.connectionString,
      };
      const functions = await start({ ...scenario.env, ...env }, 120_000);
      const taken = () =>
        functions.lines().filter(({ message }) => message.startsWith("consume took ")).length;
      try {
        await patientScenario(
          {
            // the host itself delivers a message again until it is taken
            async consume(id) {
              const before = taken();
              const fields = {
                id,
                messageId: id,
                topic: "order",
                payload: "{}",
                correlationId: null,
                headers: null,
              };
              await queue.sendMessage(Buffer.from(toEnvelope(fields)).toString("base64"));
              await expect.poll(taken, { timeout: 120_000 }).toBe(before + 1);
              return true;
            },
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
