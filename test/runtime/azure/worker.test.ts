import { afterAll, beforeAll } from "vitest";
import { describeFunctions } from "../scenarios.js";
import { type BuiltApp, buildApp } from "./built-app.js";
import { startFunctionsHost } from "./functions-host.js";

/** The path of nodejsWorker.js, a part of the Functions core tools. npm alone cannot install it. */
const worker = process.env.ONCEBOX_TEST_AZURE_WORKER ?? "";

let app: BuiltApp | undefined;
beforeAll(async () => {
  if (worker !== "") app = await buildApp();
});
afterAll(() => app?.remove());

describeFunctions({
  name: "Microsoft's worker for Node (ONCEBOX_TEST_AZURE_WORKER)",
  available: worker !== "",
  start: (env, timeoutMs) => startFunctionsHost(app!.folder, { ...env, SCENARIO_WORKER: worker }, timeoutMs),
});
