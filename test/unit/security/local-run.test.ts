import { readdirSync, statSync } from "node:fs";
import { request } from "node:http";
import { connect } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRun, startLocalRun } from "../../../src/adapters/local/local-run.js";
import { silentLogger } from "../../../src/base/logger.js";
import {
  isThisMachine,
  newDevelopmentKeys,
  newDevelopmentSecret,
  shareDevelopmentKeys,
  sharedDevelopmentKeys,
} from "../../../src/cli/development-keys.js";
import { readEnvironment } from "../../../src/config/environment.js";
import { defineApp } from "../../../src/index.js";

describe("oncebox dev", () => {
  let run: LocalRun;
  beforeAll(async () => {
    const definition = defineApp({
      database: "sqlite::memory:",
      sources: { acme: { scheme: "stripe", secrets: newDevelopmentSecret() } },
    });
    const environment = { ...(await readEnvironment({})), port: 0 };
    run = await startLocalRun(definition, { environment, logger: silentLogger });
  });
  afterAll(() => run.stop());

  /** With Node's client: fetch sets the host itself. */
  const status = (path: string, headers: Record<string, string>, method = "GET"): Promise<number> =>
    new Promise((resolve, reject) => {
      const sent = request(`${run.url}${path}`, { method, headers }, (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
      sent.on("error", reject).end();
    });

  it("FUN-11 answers only to its own host, and to no other origin", async () => {
    const { host, port } = new URL(run.url);
    expect(await status("/status", {})).toBe(200);
    expect(await status("/status", { host: `localhost:${port}` })).toBe(200);
    expect(await status("/status", { origin: `http://${host}` })).toBe(200);
    expect(await status("/status", { host: "page.example" })).toBe(403);
    expect(await status("/status", { host: "127.0.0.1.page.example" })).toBe(403);
    expect(await status("/v1/inbox/try-begin", { host: "page.example" }, "POST")).toBe(403);
    expect(await status("/status", { origin: "https://page.example" })).toBe(403);
    expect(await status("/status", { origin: "null" })).toBe(403);
    expect(await status("/webhooks/acme", { origin: "https://page.example" }, "POST")).toBe(403);
    const json = { "content-type": "application/json" };
    expect(await status("/webhooks/acme", { ...json, host: "tunnel.example" }, "POST")).toBe(401); // not signed
  });

  /** As raw bytes: clients resolve such paths themselves. */
  const rawStatus = (path: string, host: string): Promise<number> =>
    new Promise((resolve, reject) => {
      const { hostname, port } = new URL(run.url);
      const socket = connect(Number(port), hostname, () =>
        socket.write(`GET ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`),
      );
      let text = "";
      socket
        .on("error", reject)
        .on("data", (part) => {
          text += part;
        })
        .once("close", () => resolve(Number(text.split(" ", 2)[1])));
    });

  it.each([
    "/webhooks/../status",
    "/webhooks/..%2fstatus/../../status",
    "/webhooks/%2e%2e/status",
    "/webhooks/.%2E/_oncebox/health",
    "/webhooks\\..\\status",
    "/webhooks/..\\status",
    "/webhooks/x/../../v1/openapi.json",
    "http://127.0.0.1/status",
    "http://127.0.0.1/webhooks/../status",
    "//127.0.0.1/webhooks/../status",
    "//webhooks/status",
    "/status?/webhooks/",
    "/status#/webhooks/",
    "/Webhooks/../status",
    "/webhooks/\t../status",
    "/webhooks/../webhooks/../dispatch",
    "/webhooks//_oncebox/health",
    "/webhooks//v1/openapi.json",
    "/webhooks//dispatch",
  ])("FUN-11 a foreign host reaches nothing by %j", async (path) => {
    expect([400, 403]).toContain(await rawStatus(path, "page.example"));
  });

  it("FUN-11 shows its status only to GET", async () => {
    for (const method of ["POST", "PUT", "DELETE"]) expect(await status("/status", {}, method)).toBe(405);
  });

  it.each([
    ["127.0.0.1", true],
    ["127.1.2.3", true],
    ["localhost", true],
    ["[::1]", true],
    ["127.page.example", false],
    ["127.0.0.1.page.example", false],
    ["0.0.0.0", false],
    ["10.0.0.1", false],
  ])("FUN-11 is %s this machine? %s", (host, expected) => {
    expect(isThisMachine(host)).toBe(expected);
  });

  it("FUN-11 has a new secret each time, in a file that only its user can read", async () => {
    const keys = await newDevelopmentKeys([]);
    expect(await newDevelopmentKeys([])).not.toEqual(keys);
    const unshare = await shareDevelopmentKeys(1, keys);
    expect(await sharedDevelopmentKeys(1)).toEqual(keys);
    const folder = join(tmpdir(), `oncebox-${userInfo().uid}`);
    if (process.platform !== "win32") {
      expect(statSync(folder).mode & 0o777).toBe(0o700);
      expect(statSync(join(folder, "dev-1")).mode & 0o777).toBe(0o600);
    }
    await unshare();
    expect(await sharedDevelopmentKeys(1)).toBeUndefined();
    expect(readdirSync(folder)).not.toContain("dev-1");
  });
});
