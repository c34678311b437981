import { afterAll, beforeAll, expect, it } from "vitest";
import { describeServiceFunctions, serviceApp } from "../inbox-service-scenarios.js";
import { type BuiltApp, buildApp } from "./built-app.js";
import { startFunctionsHost } from "./functions-host.js";

/** The path of Microsoft's nodejsWorker.js. */
const worker = process.env.ONCEBOX_TEST_AZURE_WORKER ?? "";

let app: BuiltApp;
beforeAll(async () => {
  app = await buildApp(serviceApp);
});
afterAll(() => app.remove());

const start = async (env: Readonly<Record<string, string>>) => {
  const host = await startFunctionsHost(app.folder, env, 60_000);
  return { url: host.url, logs: () => JSON.stringify(host.lines()), stop: () => host.stop() };
};

it("SVC-07 two HTTP functions are registered besides the app's others, also when the app cannot start", async () => {
  const host = await startFunctionsHost(
    app.folder,
    { SCENARIO_SCHEMA: "x", ONCEBOX_DATABASE_URL: "nonsense" },
    60_000,
  );
  try {
    expect(host.functions).toMatchObject({
      "inbox-service": { type: "httpTrigger", route: "v1/inbox/{*path}", authLevel: "anonymous" },
      "inbox-service-document": { type: "httpTrigger", route: "v1/openapi.json", authLevel: "anonymous" },
    });
    const answer = await fetch(`${host.url}/v1/inbox/a`);
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "1"]);
    expect(answer.headers.get("oncebox-auth")).toBe("bearer");
  } finally {
    await host.stop();
  }
});

describeServiceFunctions({ name: "Azure's programming model", start });

describeServiceFunctions({
  name: "Microsoft's worker for Node (ONCEBOX_TEST_AZURE_WORKER)",
  available: worker !== "",
  start: (env) => start({ ...env, SCENARIO_WORKER: worker }),
});
