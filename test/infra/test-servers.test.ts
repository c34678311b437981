import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { root } from "../support/markdown.js";

const list = (env: Record<string, string>, ...flags: string[]) => {
  const script = join(root, "scripts/test-servers.ts");
  const { ONCEBOX_TEST_KAFKA_URL: _, ...inherited } = process.env;
  return spawnSync(process.execPath, ["--import", "tsx", script, "--list", ...flags], {
    cwd: root,
    encoding: "utf8",
    env: { ...inherited, ...env },
  });
};

describe("npm run test:servers", () => {
  it("SVC-10 says which servers it has, which it lacks and what they need, and names every suite that asks for one", () => {
    const { stdout, stderr, status } = list({ ONCEBOX_TEST_REDIS_URL: "redis://127.0.0.1:1" });
    expect(stderr).toBe("");
    expect(status).toBe(0);
    const lines = stdout.split("\n");
    expect(lines).toContain("Redis: found (ONCEBOX_TEST_REDIS_URL)");
    expect(lines).toContain("Kafka: skipped, needs ONCEBOX_TEST_KAFKA_URL");
    const asking = readdirSync(join(root, "test"), { recursive: true, encoding: "utf8" })
      .map((name) => join("test", name))
      .filter((name) => name.endsWith(".test.ts"))
      .filter((name) => /from ".*servers\/recipes\.js"/.test(readFileSync(join(root, name), "utf8")));
    expect(asking.length).toBeGreaterThan(5);
    for (const suite of asking) expect(lines).toContain(suite.replaceAll("\\", "/"));
  });

  it("SVC-10 fails with --all where a server is missing", () => {
    expect(list({}, "--all").status).toBe(1);
  });
});
