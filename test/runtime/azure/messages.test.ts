import { afterAll, beforeAll, expect, it } from "vitest";
import { describeMessageFunctions } from "../message-scenarios.js";
import { type Azurite, startAzurite } from "./azurite.js";
import type { BuiltApp } from "./built-app.js";
import { startFunctionsHost } from "./functions-host.js";
import { localTls } from "./local-tls.js";
import { buildMessageApp, startMessageFunctions } from "./message-functions.js";

/** The path of Microsoft's nodejsWorker.js. */
const worker = process.env.ONCEBOX_TEST_AZURE_WORKER ?? "";

let app: BuiltApp;
let azurite: Azurite;
beforeAll(async () => {
  [app, azurite] = await Promise.all([buildMessageApp(), startAzurite()]);
});
afterAll(async () => {
  await Promise.all([app?.remove(), azurite?.stop()]);
});

it("MSG-18 FUN-03 two HTTP functions and two timers are registered, whose schedules are settings, also when the service cannot be created", async () => {
  const env = { ONCEBOX_DISPATCH_SCHEDULE: "0 */5 * * * *" };
  const host = await startFunctionsHost(app.folder, env, 60_000);
  try {
    expect(host.functions).toEqual({
      receiveMessages: expect.objectContaining({
        type: "httpTrigger",
        route: "_rf/receive",
        authLevel: "anonymous",
        methods: ["POST"],
      }),
      diagnoseMessages: expect.objectContaining({
        type: "httpTrigger",
        route: "_rf/{*path}",
        authLevel: "anonymous",
      }),
      dispatchMessages: expect.objectContaining({ type: "timerTrigger", schedule: "0 */5 * * * *" }),
      maintainMessages: expect.objectContaining({ type: "timerTrigger", schedule: "35 * * * * *" }),
    });
    expect(await host.terminate()).toBe(0);
  } finally {
    await host.stop();
  }
});

describeMessageFunctions({
  name: "Azure's programming model",
  database: "postgres",
  start: (env, timeoutMs) => startMessageFunctions(app.folder, env, timeoutMs),
  startWoken: (env, timeoutMs) =>
    startMessageFunctions(
      app.folder,
      {
        ...env,
        ...localTls.env,
        ONCEBOX_MESSAGE_WAKE_QUEUE: "wake-messages",
        AzureWebJobsStorage: azurite.connectionString,
      },
      timeoutMs,
    ),
});

describeMessageFunctions({
  name: "Microsoft's worker for Node (ONCEBOX_TEST_AZURE_WORKER)",
  database: "postgres",
  available: worker !== "",
  start: (env, timeoutMs) =>
    startMessageFunctions(app.folder, { ...env, SCENARIO_WORKER: worker }, timeoutMs),
});
