import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { commands } from "../../src/cli/run.js";
import { defaultConnections } from "../../src/sql/connections.js";
import { root } from "../support/markdown.js";

const read = (name: string) => readFileSync(join(root, name), "utf8");
const found = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([, name]) => name!);

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

  it("FUN-10 all functions of production together fit the connections that the database's user may have", () => {
    const { params, functions } = parse(read("serverless.yml"));
    const { function: service } = parse(read("infra/aws/service-true.yml"));
    const given: Readonly<Record<string, number>> = { ...params.default, ...params.prod };
    const reserved = ({ reservedConcurrency }: { reservedConcurrency?: unknown }): number => {
      const [, name = ""] = /^\$\{param:(\w+)\}$/.exec(String(reservedConcurrency)) ?? [];
      return Number(given[name] ?? reservedConcurrency);
    };
    // those that are in a file of their own are a reference here
    const own = Object.entries<object>(functions).filter(([, one]) => typeof one === "object");
    expect(own.length).toBeGreaterThan(4);
    // a webhook's function handles one request at a time; the others have a pool
    const most = own.reduce(
      (sum, [name, one]) => sum + reserved(one) * (name === "webhook" ? 1 : defaultConnections),
      reserved(service),
    );
    expect(most).toBeGreaterThan(0);
    const [allowed] = found(read("infra/sql/users-postgres.sql"), /connection limit (\d+)/g);
    expect(most).toBeLessThanOrEqual(Number(allowed));
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
