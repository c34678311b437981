import { generateKeyPairSync } from "node:crypto";
import { afterEach, describe, expect, it } from "vitest";
import { timeBudget } from "../../../src/base/async.js";
import { type RecoverGithubOptions, recoverGithub } from "../../../src/webhooks/index.js";
import { limitedForMs } from "../../../src/webhooks/recovery/github-api.js";
import { failedDeliveries, nextCursor } from "../../../src/webhooks/recovery/github-deliveries.js";
import { type LogLine, recordingLogger } from "../../contract/support/recording-logger.js";
import { cliWith } from "../../support/cli.js";
import {
  type Attempt,
  type GithubApiServer,
  type GithubApiState,
  startGithubApi,
} from "../../support/servers/github-api.js";

const now = new Date("2030-01-04T00:00:00Z");
const hour = 3_600_000;
const attempt = (guid: string, status: number, hoursAgo: number): Attempt => ({
  guid,
  status,
  at: new Date(now.getTime() - hoursAgo * hour),
});
const path = "/repos/acme/shop/hooks/7/deliveries";
const token = "ghp_a-token-that-nobody-may-see";

const servers: GithubApiServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function started(state: GithubApiState | readonly Attempt[]): Promise<GithubApiServer> {
  const full = "hooks" in state ? state : { hooks: { [path]: state } };
  const server = await startGithubApi({ token, now, ...full });
  servers.push(server);
  return server;
}

const optionsFor = (
  { url }: GithubApiServer,
  more: Partial<RecoverGithubOptions> = {},
): RecoverGithubOptions => ({
  hooks: [{ repository: "acme/shop", hookId: 7 }],
  token,
  apiUrl: url,
  pauseMs: 0,
  clock: () => now,
  ...more,
});

describe("the recovery of GitHub's failed deliveries", () => {
  it("FUN-01 asks once for each event of which no attempt succeeded, the oldest first", async () => {
    const server = await started([
      attempt("delivered", 200, 1),
      attempt("timed out", 0, 2),
      attempt("refused", 503, 5),
      attempt("recovered", 500, 4),
      attempt("recovered", 200, 3),
      attempt("failed twice", 502, 20),
      attempt("failed twice", 502, 19),
    ]);
    const report = await recoverGithub(optionsFor(server));
    expect(server.redelivered).toEqual(["failed twice", "refused", "timed out"]);
    expect(report).toEqual({ seen: 7, failed: 3, asked: 3, later: 0, refused: 0, isComplete: true });
    const again = await recoverGithub(optionsFor(server));
    expect(again).toMatchObject({ failed: 0, asked: 0, isComplete: true });
  });

  it("FUN-01 reads all pages by their cursors, and none that is older than asked for", async () => {
    const hours = Array.from({ length: 250 }, (_, index) => attempt(`e${index}`, 500, index / 4));
    const server = await started(hours);
    const report = await recoverGithub(optionsFor(server, { dryRun: true }));
    expect(report).toMatchObject({ seen: 250, failed: 250, asked: 0, isComplete: true });
    expect(server.requests).toHaveLength(3);
    const lately = await recoverGithub(optionsFor(server, { dryRun: true, sinceMs: 10 * hour }));
    expect(lately.seen).toBe(41);
    expect(server.requests).toHaveLength(4);
  });

  it("FUN-01 waits where GitHub limits requests, and goes on", async () => {
    const server = await started([attempt("failed", 500, 2)]);
    server.refuseNext({ status: 429, headers: { "retry-after": "0" } });
    server.refuseNext({ status: 403, headers: { "retry-after": "0" } });
    expect(await recoverGithub(optionsFor(server))).toMatchObject({ asked: 1, isComplete: true });
    expect(server.requests).toHaveLength(4);
    for (let each = 0; each < 10; each++) server.refuseNext({ status: 429, headers: { "retry-after": "0" } });
    expect(await recoverGithub(optionsFor(server))).toMatchObject({ isComplete: false });
    expect(server.requests, "no loop").toHaveLength(10);
  });

  it("FUN-01 ends where GitHub asks to wait for longer than there is time", async () => {
    const server = await started([attempt("failed", 500, 2), attempt("failed too", 500, 3)]);
    server.refuseNext({ status: 403, headers: { "retry-after": "3600" } });
    expect(await recoverGithub(optionsFor(server))).toMatchObject({ seen: 0, isComplete: false });
    const reset = String(now.getTime() / 1_000 + 3_600);
    const limits = { "x-ratelimit-remaining": "0", "x-ratelimit-reset": reset };
    server.refuseNext({ status: 403, headers: limits });
    expect(await recoverGithub(optionsFor(server))).toMatchObject({ seen: 0, isComplete: false });
    expect(await recoverGithub(optionsFor(server), timeBudget(0))).toMatchObject({ isComplete: false });
    expect(server.redelivered).toEqual([]);
  });

  it("FUN-01 ends with its time where GitHub does not answer, and asks for what it has found", async () => {
    const many = Array.from({ length: 150 }, (_, index) => attempt(`e${index}`, 500, 1 + index / 10));
    const server = await started(many);
    const token = () => {
      if (server.requests.length === 1) server.refuseNext({ status: 0 }); // the second page
      return optionsFor(server).token as string;
    };
    const report = await recoverGithub(optionsFor(server, { token }), timeBudget(1_000));
    expect(report).toMatchObject({ seen: 100, failed: 100, isComplete: false });
    expect(report.asked, "the list may take half of the time").toBeGreaterThan(0);
  });

  it("FUN-01 serves hooks of organizations and apps, each with its own credential", async () => {
    const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2_048 });
    const hooks = {
      "/app/hook/deliveries": [attempt("of the app", 500, 2)],
      "/orgs/acme/hooks/8/deliveries": [attempt("of the organization", 500, 2)],
    };
    const server = await started({ hooks, publicKey });
    const pem = privateKey.export({ format: "pem", type: "pkcs1" }).toString();
    const report = await recoverGithub(
      optionsFor(server, {
        hooks: [{ app: true }, { organization: "acme", hookId: "8" }],
        app: { id: 12345, privateKey: async () => pem.replaceAll("\n", "\\n") },
      }),
    );
    expect(report).toMatchObject({ asked: 2, isComplete: true });
    expect(server.redelivered).toEqual(["of the app", "of the organization"]);
  });

  it("FUN-01 a hook that is gone does not keep the others from being recovered, and no error has the token", async () => {
    const server = await started([attempt("failed", 500, 2)]);
    const logs: LogLine[] = [];
    const hooks = [{ repository: "acme/gone", hookId: 1 }, ...optionsFor(server).hooks];
    const run = recoverGithub(optionsFor(server, { hooks, logger: recordingLogger(logs) }));
    await expect(run).rejects.toThrow(/404 to GET \/repos\/acme\/gone/);
    expect(server.redelivered).toEqual(["failed"]);
    const wrong = recoverGithub(optionsFor(server, { token: "wrong-token", logger: recordingLogger(logs) }));
    const error = await wrong.catch((one: Error) => one);
    expect(String(error)).toMatch(/401/);
    expect(JSON.stringify([logs, String(error)])).not.toMatch(/ghp_|wrong-token/);
    expect(logs.map(({ message }) => message)).toContain("github recovery failed");
  });

  it("FUN-01 a delivery that GitHub gives no more is counted, and the rest is asked for", async () => {
    const server = await started([attempt("too old", 500, 70), attempt("failed", 500, 2)]);
    const options = optionsFor(server);
    await recoverGithub({ ...options, dryRun: true });
    const run = recoverGithub({
      ...options,
      token: () => {
        if (server.requests.length === 2) server.refuseNext({ status: 422 });
        return token;
      },
    });
    expect(await run).toMatchObject({ asked: 1, refused: 1, isComplete: true });
  });

  it("sends the token to no other host, whatever the link says", () => {
    const link = '<https://evil.example/x?cursor=v1_100>; rel="next", <https://a/b?cursor=0>; rel="first"';
    expect(nextCursor(link)).toBe("v1_100");
    expect(nextCursor('<https://a/b?cursor=0>; rel="first"')).toBeUndefined();
    expect(nextCursor(null)).toBeUndefined();
  });

  it("reads GitHub's limits", () => {
    const limited = (status: number, headers: Record<string, string>) =>
      limitedForMs({ status, headers: new Headers(headers) }, now);
    expect(limited(429, { "retry-after": "7" })).toBe(7_000);
    expect(limited(429, {})).toBe(60_000);
    expect(limited(403, {})).toBeUndefined();
    const reset = String(now.getTime() / 1_000 + 30);
    expect(limited(403, { "x-ratelimit-remaining": "0", "x-ratelimit-reset": reset })).toBe(30_000);
    expect(limited(403, { "x-ratelimit-remaining": "5", "x-ratelimit-reset": reset })).toBeUndefined();
    expect(limited(200, { "retry-after": "7" })).toBeUndefined();
  });

  it("asks for an event again when its last attempt is as old as all attempts before it took", () => {
    const failed = (...hoursAgo: readonly number[]) =>
      hoursAgo.map((hours, id) => ({
        id: String(id),
        guid: "e",
        isOk: false,
        at: now.getTime() - hours * hour,
      }));
    const due = (deliveries: ReturnType<typeof failed>, backOff = true) =>
      failedDeliveries(deliveries, { now: now.getTime(), backOff }).due.length;
    expect(due(failed(0.01))).toBe(0);
    expect(due(failed(0.02))).toBe(1);
    expect(due(failed(3, 1))).toBe(0);
    expect(due(failed(3, 1.5))).toBe(1);
    expect(due(failed(60, 5))).toBe(0);
    expect(due(failed(60, 6))).toBe(1);
    expect(due(failed(3, 1), false)).toBe(1);
  });

  it("refuses options that can never work, all in one error", async () => {
    const hooks = [{ repository: "shop", hookId: 1 }, { organization: "acme" }, { app: true }, {}] as never;
    await expect(recoverGithub({ hooks, apiUrl: "http://api.example.com" })).rejects.toThrow(
      /hooks\[0\].*owner\/name; hooks\[1\].*hookId.*hooks\[3\].*one of.*app must have.*token is missing.*https/,
    );
    await expect(recoverGithub({ hooks: [], sincems: 1 } as never)).rejects.toThrow(/sincems/);
  });

  it("is a command, which takes credentials from variables only and prints none", async () => {
    const server = await started([attempt("failed", 500, 0)].map((one) => ({ ...one, at: new Date() })));
    const args = ["recover", "github", "--repository", "acme/shop", "--hook", "7", "--api-url", server.url];
    const dry = await cliWith({ GITHUB_TOKEN: token }, ...args, "--dry-run", "--all", "--json");
    expect(JSON.parse(dry.out)).toMatchObject({ seen: 1, failed: 1, asked: 0, isComplete: true });
    const run = await cliWith({ OTHER: token }, ...args, "--all", "--token-env", "OTHER");
    expect(run).toMatchObject({ code: 0, err: "" });
    expect(run.out).toContain("asked for again 1");
    expect((await cliWith({}, ...args)).err).toContain("GITHUB_TOKEN is not set");
    const wrong = await cliWith({ GITHUB_TOKEN: "ghp_other" }, ...args);
    expect(wrong.code).toBe(1);
    expect(wrong.err).toContain("401");
    expect(wrong.err + run.out).not.toMatch(/ghp_/);
    expect((await cliWith({}, "recover", "github")).code).toBe(2);
  });
});
