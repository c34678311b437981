import { afterAll, beforeAll } from "vitest";
import { describeFunctions } from "../scenarios.js";
import { type BuiltApp, buildApp } from "./built-app.js";
import { startFunctionsHost } from "./functions-host.js";

let app: BuiltApp;
beforeAll(async () => {
  app = await buildApp();
});
afterAll(() => app.remove());

describeFunctions({
  name: "Azure's programming model",
  start: (env, timeoutMs) => startFunctionsHost(app.folder, env, timeoutMs),
});
