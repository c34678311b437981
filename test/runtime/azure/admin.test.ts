import { afterAll, beforeAll, expect, it } from "vitest";
import { adminApp, describeAdminFunctions } from "../admin-scenarios.js";
import { type BuiltApp, buildApp } from "./built-app.js";
import { startFunctionsHost } from "./functions-host.js";

/** The path of Microsoft's nodejsWorker.js. */
const worker = process.env.ONCEBOX_TEST_AZURE_WORKER ?? "";

let app: BuiltApp;
beforeAll(async () => {
  app = await buildApp(adminApp);
});
afterAll(() => app.remove());

const start = async (env: Readonly<Record<string, string>>) => {
  const host = await startFunctionsHost(app.folder, env, 60_000);
  return { url: host.url, logs: () => JSON.stringify(host.lines()), stop: () => host.stop() };
};

it("MSG-14 one HTTP function is registered besides the app's others, also when the app cannot start", async () => {
  const host = await startFunctionsHost(
    app.folder,
    { SCENARIO_SCHEMA: "x", ONCEBOX_DATABASE_URL: "nonsense" },
    60_000,
  );
  try {
    expect(host.functions).toMatchObject({
      admin: { type: "httpTrigger", route: "_oncebox/{*path}", authLevel: "anonymous" },
    });
    expect(JSON.stringify(host.functions)).not.toContain("_rf"); // these paths are a service's
    const answer = await fetch(`${host.url}/_oncebox/inbox/stats`);
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "1"]);
    expect(await answer.text()).not.toContain("nonsense");
  } finally {
    await host.stop();
  }
});

describeAdminFunctions({ name: "Azure's programming model", start });

describeAdminFunctions({
  name: "Microsoft's worker for Node (ONCEBOX_TEST_AZURE_WORKER)",
  available: worker !== "",
  start: (env) => start({ ...env, SCENARIO_WORKER: worker }),
});
