import { fileURLToPath } from "node:url";
import { afterAll, expect, it, vi } from "vitest";
import { type GithubApiServer, startGithubApi } from "../../support/servers/github-api.js";
import { loadInProcess } from "./in-process-worker.js";

const path = "/repos/acme/shop/hooks/7/deliveries";
const token = "ghp_of-the-worker";
let server: GithubApiServer;
afterAll(async () => {
  vi.unstubAllEnvs();
  await server?.close();
});

it("FUN-12 on Azure a setting of the worker's app adds it to the functions of an app, and to no other", async () => {
  const attempts = [{ guid: "one", status: 503, at: new Date(Date.now() - 3_600_000) }];
  server = await startGithubApi({ hooks: { [path]: attempts }, token, redeliveryStatus: 200 });
  vi.stubEnv("ONCEBOX_DATABASE_URL", "sqlite::memory:");
  vi.stubEnv("ONCEBOX_FUNCTIONS", "work");
  vi.stubEnv("ONCEBOX_RECOVER_GITHUB", "acme/shop:7");
  vi.stubEnv("ONCEBOX_GITHUB_TOKEN", token);
  vi.stubEnv("ONCEBOX_GITHUB_API_URL", server.url);
  const folder = fileURLToPath(new URL("recovery-settings-app", import.meta.url));
  const lines: string[] = [];
  const worker = await loadInProcess(folder, (_level, _category, message) => void lines.push(message));
  expect([...worker.triggers.keys()]).toEqual(["dispatch", "reap", "cleanup", "recoverGithub"]);
  await worker.invoke("recoverGithub", { json: JSON.stringify({ isPastDue: false }) }, "1");
  expect(lines.join("\n")).toMatch(/github recovery.*"asked":1/);
  expect(lines.join("\n")).not.toContain(token);
  // a wrong setting fails its own runs, and no other function
  vi.stubEnv("ONCEBOX_RECOVER_GITHUB", "acme/shop");
  const again = worker.invoke("recoverGithub", { json: JSON.stringify({ isPastDue: false }) }, "2");
  await expect(again).rejects.toThrow(/owner\/repository:hookId/);
  await worker.terminate();
});
