import { fileURLToPath } from "node:url";
import type { Context } from "aws-lambda";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { recoverGithubFunction } from "../../src/adapters/aws/index.js";
import { type GithubApiServer, startGithubApi } from "../support/servers/github-api.js";
import { loadInProcess } from "./azure/in-process-worker.js";

const path = "/repos/acme/shop/hooks/7/deliveries";
const token = "ghp_of-the-schedule";

describe("the recovery of GitHub's deliveries on a schedule", () => {
  let server: GithubApiServer;
  beforeAll(async () => {
    const at = new Date(Date.now() - 3_600_000);
    const attempts = ["one", "other"].map((guid) => ({ guid, status: 503, at }));
    server = await startGithubApi({ hooks: { [path]: attempts }, token, redeliveryStatus: 503 });
    vi.stubEnv("RECOVERY_TEST_TOKEN", token);
    vi.stubEnv("RECOVERY_TEST_URL", server.url);
    vi.stubEnv("ONCEBOX_RECOVER_SCHEDULE", "0 0 * * * *");
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    await server?.close();
  });

  it("FUN-12 on Azure it is a function with a timer", async () => {
    const lines: string[] = [];
    const folder = fileURLToPath(new URL("azure/recovery-app", import.meta.url));
    const worker = await loadInProcess(folder, (_level, _category, message) => void lines.push(message));
    expect(worker.triggers.get("recoverGithub")).toMatchObject({ schedule: "0 0 * * * *" });
    await worker.invoke("recoverGithub", { json: JSON.stringify({ isPastDue: false }) }, "1");
    expect(server.redelivered).toEqual(["one", "other"]);
    expect(lines.join("\n")).toContain("github recovery");
    expect(lines.join("\n")).not.toContain(token);
    await worker.terminate();
  });

  it("FUN-12 on AWS it is a handler, which does not ask again at once", async () => {
    const context = { getRemainingTimeInMillis: () => 20_000 } as Context;
    const handler = recoverGithubFunction({
      hooks: [{ repository: "acme/shop", hookId: 7 }],
      token: { from: "env", name: "RECOVERY_TEST_TOKEN" },
      apiUrl: server.url,
      logger: { debug() {}, info() {}, warn() {}, error() {} },
    });
    expect(await handler({}, context)).toEqual({
      seen: 4,
      failed: 2,
      asked: 0,
      later: 2,
      refused: 0,
      isComplete: true,
    });
  });

  it("FUN-12 on AWS the environment may name the webhooks; a handler without them says what is missing", async () => {
    const context = { getRemainingTimeInMillis: () => 20_000 } as Context;
    vi.stubEnv("ONCEBOX_RECOVER_GITHUB", "acme/shop:7");
    vi.stubEnv("ONCEBOX_GITHUB_TOKEN", token);
    vi.stubEnv("ONCEBOX_GITHUB_API_URL", server.url);
    expect(await recoverGithubFunction()({}, context)).toMatchObject({
      failed: 2,
      later: 2,
      isComplete: true,
    });
    vi.stubEnv("ONCEBOX_RECOVER_GITHUB", "");
    expect(() => recoverGithubFunction()).toThrow(
      "ONCEBOX_RECOVER_GITHUB, the webhooks at GitHub, is not set.",
    );
  });
});
