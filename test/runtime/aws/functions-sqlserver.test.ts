import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { APIGatewayProxyStructuredResultV2, SQSBatchResponse } from "aws-lambda";
import { afterAll, beforeAll, describe, inject, it } from "vitest";
import { bundleFunctions } from "../../../src/packaging/bundle-functions.js";
import { isSlowServer } from "../../support/sqlserver-harness.js";
import { patientScenario } from "../patient-scenario.js";
import { openScenario, scenarioApp, scenarioSecret } from "../scenarios.js";
import { sqlServerForFunctions } from "./functions-database.js";
import { functionsSuite } from "./functions-suite.js";
import { answerOf, stripeHttpEvent } from "./http-events.js";
import { lambdaFunction } from "./lambda-function.js";
import { sqsEvent } from "./sqs-event.js";

const url = inject("sqlServerUrl");
const schedule = { source: "aws.events", "detail-type": "Scheduled Event", detail: {} };

describe.skipIf(url === "")(
  "SQL Server (needs ONCEBOX_TEST_MSSQL_URL or Docker)",
  { timeout: 300_000 },
  () => {
    let folder: string;
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "oncebox-lambda-"));
      await bundleFunctions({ cloud: "aws", database: "sqlserver", app: scenarioApp, outFolder: folder });
    });
    afterAll(() => rm(folder, { recursive: true, force: true }));

    it("FUN-01 FUN-03 FUN-04 FUN-12 MID-11 from the webhook and the queue to the clean-up", async () => {
      const scenario = await openScenario("sqlserver");
      const start = (name: string) =>
        lambdaFunction({
          folder,
          handler: `${name}.handler`,
          env: { ...scenario.env, SCENARIO_PATIENT: "1" },
        });
      const functions = {
        webhook: start("webhook"),
        dispatch: start("dispatch"),
        reap: start("reap"),
        cleanup: start("cleanup"),
        consume: start("consume"),
      };
      try {
        await patientScenario(
          {
            send: async (id) => {
              const event = stripeHttpEvent({ id, secret: scenarioSecret });
              return answerOf(await functions.webhook.invoke<APIGatewayProxyStructuredResultV2>(event));
            },
            consume: async (id) => {
              const event = sqsEvent([{ MessageId: id, Body: "{}" }]);
              const answer = await functions.consume.invoke<SQSBatchResponse>(event).catch(() => undefined);
              return answer?.batchItemFailures.length === 0;
            },
            run: (name) => functions[name].invoke(schedule),
          },
          scenario,
        );
      } finally {
        await Promise.all(Object.values(functions).map((one) => one.close()));
        await scenario.close();
      }
    });
  },
);

// Its functions have deadlines of seconds, which a stand-in for SQL Server does not keep.
describe.skipIf(await isSlowServer(url))("a quick SQL Server", { timeout: 300_000 }, () =>
  functionsSuite({ database: "sqlserver", open: () => sqlServerForFunctions(url) }),
);
