import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { commands } from "../../src/cli/run.js";
import { inboxServiceDefaults } from "../../src/service/http/inbox-service.js";
import { defaultConnections } from "../../src/sql/connections.js";
import { root } from "./aws-stack.js";

const read = (name: string) => readFileSync(join(root, name), "utf8");
const found = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([, name]) => name!);

/** The last number of a cell is what it costs: "4.38 M: 3.17", "23.36 + 20 GB: 25.66". */
const amount = (cell: string) => Number(/([\d,]+(?:\.\d+)?)\**\s*$/.exec(cell)![1]!.replaceAll(",", ""));

describe.each(["docs/deploy-aws.md", "docs/deploy-azure.md"])("%s", (name) => {
  const text = read(name);

  it("names files, scripts and commands that there are", () => {
    const files = found(text, /\b(infra\/[\w./-]+\w)/g);
    expect(files.length).toBeGreaterThan(3);
    for (const file of files) expect(existsSync(join(root, file)), file).toBe(true);
    const { scripts } = JSON.parse(read("package.json"));
    for (const script of found(text, /npm run ([\w:]+)/g)) expect(Object.keys(scripts)).toContain(script);
    const known = commands.map((command) => command.name);
    for (const command of found(text, /npx oncebox (\w+)/g)) expect(known).toContain(command);
  });

  it("its costs add up", () => {
    const [, table = ""] = text.split("## What it costs");
    const rows = table
      .split("\n")
      .filter((line) => line.startsWith("|"))
      .map((line) => line.split("|").slice(1, -1));
    // The others are quantities: they end with a unit, or are messages.
    const costs = rows.filter((row) => /\d\**\s*$/.test(row[3]!) && !/a month|messages/.test(row[0]!));
    expect(costs.length).toBeGreaterThan(5);
    const total = costs.pop()!;
    expect(total[0]).toContain("together");
    for (const column of [1, 2, 3]) {
      const sum = costs.reduce((all, row) => all + amount(row[column]!), 0);
      expect(sum).toBeCloseTo(amount(total[column]!), 1);
    }
  });

  it("every sum that it writes out is right", () => {
    const sums = [...text.matchAll(/((?:[\d.]+ \+ )+[\d.]+) = \$([\d.]+\d)/g)];
    expect(sums.length).toBeGreaterThan(1);
    for (const [all, parts, sum] of sums) {
      const together = parts!.split(" + ").reduce((total, part) => total + Number(part), 0);
      expect(together, all).toBeCloseTo(Number(sum), 5);
    }
  });

  const [, service = ""] = text.split(/^## The inbox as a service$|^## Many tenants$/m);

  it("the costs of the inbox service add up", () => {
    const sums = [...service.matchAll(/((?:[\d.]+ \+ )+[\d.]+) = \$(\d+\.\d\d)/g)];
    expect(sums).toHaveLength(2);
    for (const [, parts, sum] of sums) {
      const together = parts!.split(" + ").reduce((all, part) => all + Number(part), 0);
      expect(together).toBeCloseTo(Number(sum), 5);
    }
  });

  it("SVC-07 a token is never an argument of a command, and two are valid while one is rotated", () => {
    const puts = found(service, /^(printf .*)(?: \|)/gm);
    expect(puts).toEqual([
      `printf %s "$TOKEN"`,
      `printf 'header = "authorization: Bearer %s"' "$TOKEN"`,
      `printf '%s\\n%s' "$TOKEN" "$NEW_TOKEN"`,
      `printf %s "$NEW_TOKEN"`,
    ]);
    expect(inboxServiceDefaults.tokensMaxAgeMs).toBe(5 * 60_000);
    expect(service).toContain("fetch them again every five minutes");
    expect(found(service, /(\/dev\/stdin|--config -|hooks\.mjs secret)/g)).toHaveLength(puts.length);
    expect(service.replace(/^printf .*?\|/gm, "")).not.toMatch(/\$(NEW_)?TOKEN/);
  });
});

describe("the guides and the templates", () => {
  it("the AWS guide uses parameters and secrets of the stack", () => {
    const { params } = parse(read("serverless.yml"));
    const guide = read("docs/deploy-aws.md");
    for (const param of found(guide, /--param="(\w+)=/g))
      expect(Object.keys(params.default)).toContain(param);
    expect(Object.keys(params.default)).toEqual(expect.arrayContaining(Object.keys(params.prod)));
    const templates = ["secrets", "tenants-catalogue", "service-true", "admin-true", "recover-github-true"]
      .map((file) => read(`infra/aws/${file}.yml`))
      .join("\n");
    const secrets = found(guide, /--secret-id \$APP\/\$STAGE\/([\w/-]+)/g);
    expect(secrets.length).toBeGreaterThan(2);
    for (const secret of secrets)
      expect(templates).toContain(`Name: \${self:service}/\${sls:stage}/${secret}\n`);
  });

  it("FUN-10 the concurrency and the connections that the AWS guide speaks of are those of the stack", () => {
    const { params, functions: all } = parse(read("serverless.yml"));
    const { inboxService, admin, migrate, recoverGithub, ...functions } = all;
    expect(recoverGithub).toContain("custom.recoverGithub.function");
    expect(migrate).toContain("custom.migrate.function");
    expect(inboxService).toContain("custom.inboxService.function");
    expect(admin).toContain("custom.admin.function");
    const { function: service } = parse(read("infra/aws/service-true.yml"));
    const guide = read("docs/deploy-aws.md");
    const reserved = (stage: string, { reservedConcurrency }: { reservedConcurrency: unknown }): number => {
      const given: Record<string, number> = { ...params.default, ...params[stage] };
      const value = String(reservedConcurrency);
      return Number(given[/^\$\{param:(\w+)\}$/.exec(value)?.[1] ?? ""] ?? value);
    };
    const together = (stage: string, each: (name: string) => number) =>
      Object.keys(functions).reduce((sum, name) => sum + reserved(stage, functions[name]) * each(name), 0);
    expect(guide).toContain(
      `reserves concurrency: ${together("prod", () => 1)} in prod, ${together("dev", () => 1)} elsewhere`,
    );
    // One request at a time, or a pool.
    const connections = (name: string) => (name === "webhook" ? 1 : defaultConnections);
    const most = { prod: together("prod", connections), dev: together("dev", connections) };
    expect(guide).toContain(`up to ${most.prod} connections in prod and ${most.dev} elsewhere`);
    const more = { prod: reserved("prod", service), dev: reserved("dev", service) };
    expect(guide).toContain(`reserved concurrency: ${more.prod} in prod, ${more.dev} elsewhere`);
    const sum = { prod: most.prod + more.prod, dev: most.dev + more.dev };
    expect(guide).toContain(`up to ${sum.prod} connections with the service, and ${sum.dev} elsewhere`);
    expect(read("serverless.yml")).toContain(`the sum: ${most.dev} here, ${most.prod} in prod.`);
    const [allowed] = found(read("infra/sql/users-postgres.sql"), /connection limit (\d+)/g);
    expect(sum.prod).toBeLessThanOrEqual(Number(allowed));
    expect(guide).toContain(`allows ${allowed}`);
  });

  it("the Azure guide sets what the parameters' file reads, and uses what the deployment returns", () => {
    const guide = read("docs/deploy-azure.md");
    const parameters = read("infra/azure/main.parameters.json");
    for (const name of found(guide, /azd env set (\w+)/g)) expect(parameters).toContain(`\${${name}`);
    const outputs = found(read("infra/azure/main.bicep"), /^output (\w+) /gm);
    const used = found(guide, /(?<!\\)\$\{?([A-Z]+(?:_[A-Z]+)+)\b/g).filter(
      (name) => name !== "NEW_TOKEN" && name !== "OWNER_URL",
    );
    expect(used.length).toBeGreaterThan(10);
    for (const name of used) expect(outputs).toContain(name);
    const secrets = found(guide, /hooks\.mjs secret ([\w-]+)/g).filter((name) => name !== "tenant-acme");
    expect(new Set(secrets)).toEqual(
      new Set(["stripe-webhook-secret", "admin-tokens", "inbox-service-tokens", "github-token"]),
    );
    for (const name of secrets) expect(read("infra/azure/main.bicep")).toContain(`'${name}'`);
  });

  it("FUN-10 the Azure guide's connections are those of the pool and of the functions that the platform scales", () => {
    const guide = read("docs/deploy-azure.md");
    const [, instances] = /param maximumInstanceCount int = (\d+)/.exec(read("infra/azure/main.bicep"))!;
    const work = read("src/adapters/azure/functions.ts");
    const timers = found(work, /functionApp\.timer\("(\w+)"/g);
    const queues = found(work, /functionApp\.(?:storageQueue|serviceBusQueue)\("([\w-]+)"/g);
    expect([timers.length, queues]).toEqual([3, ["wakeup", "consume", "consume-bus"]]);
    const connections = (groups: number) => defaultConnections * (timers.length + groups * Number(instances));
    const most = { S0: 600, S1: 900, S2: 1_200 }; // sessions, in Microsoft's limits of the DTU model
    // For users, in Microsoft's "Limits in Azure Database for PostgreSQL".
    const ofPostgres = { Standard_B1ms: 35, Standard_B2s: 414, Standard_B2ms: 844, Standard_B4ms: 1_703 };
    const rows = [
      ...guide.matchAll(/^\| (?:as it is|with)\b.*\| (\d) \| (\d+) \| (S\d) \| (Standard_\w+) \|$/gm),
    ];
    expect(rows).toHaveLength(4);
    const fitting = (sizes: Readonly<Record<string, number>>, given: string | undefined) =>
      Object.entries(sizes).find(([, sessions]) => sessions >= Number(given))![0];
    for (const [, groups, given, size, postgresSize] of rows) {
      expect(Number(given)).toBe(connections(Number(groups)));
      expect([size, postgresSize]).toEqual([fitting(most, given), fitting(ofPostgres, given)]);
    }
    for (const [size, sessions] of Object.entries({ ...most, ...ofPostgres }))
      expect(guide).toContain(`${sessions.toLocaleString("en-US")} at ${size}`);
    // webhook, wakeup and consume, as a deployment has them without being asked for more
    expect(guide).toContain(`4 × (3 + 3 × ${instances}) = ${connections(3)} connections`);
    const sizes = found(read("infra/azure/main.bicep"), /empty\(databaseSku\) \? '(\w+)'/g);
    expect(sizes).toEqual(rows[0]!.slice(3)); // of a deployment as it is
  });

  it("FUN-10 the Azure guide says who needs which right, how each step is undone, and what is expected after it", () => {
    const guide = read("docs/deploy-azure.md");
    const section = (title: string) => guide.split(`\n## ${title}\n`)[1]!.split("\n## ")[0]!;
    const rows = (text: string) =>
      text
        .split("\n")
        .filter((line) => /^\| (?!-)/.test(line))
        .slice(1);
    const plan = rows(section("What is created, in which order")).map((row) => row.split("|").slice(1, -1));
    expect(plan.length).toBeGreaterThan(6);
    for (const [, creates, right] of plan) expect([creates!.trim(), right!.trim()]).not.toContain("");
    for (const role of ["Contributor", "Role Based Access Control Administrator"])
      expect(guide).toContain(role);
    const checks = rows(section("After the first deployment")).map((row) =>
      row.split(/(?<!\\)\|/).slice(1, -1),
    );
    expect(checks.length).toBeGreaterThan(7);
    for (const row of checks) {
      expect(row).toHaveLength(3);
      expect(row[1]).toMatch(/`(az|npx oncebox|node) |step 6/);
      expect(row[2]!.trim()).not.toBe("");
    }
    expect(guide).toContain("--authentication-method ActiveDirectoryDefault");
    expect(guide).not.toMatch(/sqlcmd -G/);
    // A private server takes no firewall rule, so nobody is told to add one.
    expect(section("The database by hand")).toMatch(
      /there is then no firewall\s+rule to add\. Without it:\n\n```sh\naz sql server firewall-rule create/,
    );
    const [way] = guide.split("\n## The database by hand\n");
    expect(way).not.toContain("firewall-rule");
    expect(section("Another version")).toMatch(
      /\*\*`Recreate`\*\*, the default. The platform ends running functions at once/,
    );
  });

  it("FUN-10 the options that the Azure guide gives to our own commands are theirs", () => {
    const guide = read("docs/deploy-azure.md").replaceAll("\\\n", " ");
    const calls = [...guide.matchAll(/npx oncebox (\w+)([^\n`]*)/g)];
    expect(calls.length).toBeGreaterThan(5);
    for (const [, name, rest] of calls) {
      const known = Object.keys(commands.find((command) => command.name === name)!.options);
      for (const option of found(rest!.replace(/#.*/, ""), /--([a-z-]+)/g)) expect(known).toContain(option);
    }
    const tasks = found(read("infra/azure/hooks.mjs"), /^const tasks = \{ (.*) \};$/gm)[0]!.split(", ");
    for (const task of found(guide, /hooks\.mjs (\w+)/g)) expect(tasks).toContain(task);
  });
});
