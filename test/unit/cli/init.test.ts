import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { commands } from "../../../src/cli/run.js";
import { cli as runScripted } from "../../support/cli.js";

const root = fileURLToPath(new URL("../../..", import.meta.url));

const filesIn = async (folder: string) =>
  (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).replaceAll("\\", "/"))
    .sort();

describe("oncebox init", () => {
  let parent: string;
  beforeAll(async () => {
    parent = await mkdtemp(join(tmpdir(), "oncebox-init-"));
  });
  afterAll(() => rm(parent, { recursive: true, force: true }));

  const cli = async (...args: string[]) => {
    const { code, out, err } = await runScripted(...args);
    return { code, text: `${out}\n${err}` };
  };

  it.each([
    { cloud: "aws", database: "postgres", templates: ["serverless.yml"] },
    { cloud: "azure", database: "sqlserver", templates: ["azure.yaml", "host.json"] },
  ])(
    "FUN-10 an app for $cloud has exactly the templates of this package",
    async ({ cloud, database, templates }) => {
      const folder = join(parent, cloud);
      expect((await cli("init", cloud, folder)).code).toBe(0);
      const infra = (await filesIn(join(root, "infra", cloud))).map((name) => `infra/${cloud}/${name}`);
      expect(infra.length).toBeGreaterThan(3);
      for (const name of [
        ...templates,
        ...infra,
        `infra/sql/users-${database}.sql`,
        "infra/sql/catalogue.sql",
      ]) {
        expect(await readFile(join(folder, name), "utf8"), name).toBe(
          await readFile(join(root, name), "utf8"),
        );
      }
      const functions = await filesIn(join(folder, "functions"));
      const own = (await filesIn(join(root, "functions", cloud))).filter(
        (name) => !/^(inbox-service|admin|recover-github|message-\w+|messages)\.ts$/.test(name),
      );
      expect(functions).toEqual(["app.ts", ...own.map((name) => `${cloud}/${name}`)]);
      for (const name of functions) {
        const text = await readFile(join(folder, "functions", name), "utf8");
        expect(text).not.toContain("/src/");
        expect(text).toMatch(/from "oncebox(\/(aws|azure))?"/);
      }
      const manifest = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
      expect(manifest.scripts[`package:${cloud}`]).toBe(`oncebox package ${cloud} --database ${database}`);
      expect("@types/aws-lambda" in manifest.devDependencies).toBe(cloud === "aws");
      const versions = Object.values({ ...manifest.dependencies, ...manifest.devDependencies });
      expect(versions.every((version) => /^\^?\d/.test(String(version)))).toBe(true);
      expect(versions.length).toBeGreaterThan(6);
    },
  );

  it("FUN-10 an app for AWS on SQL Server says so in its stack, whose port follows from it", async () => {
    const folder = join(parent, "aws-sqlserver");
    expect((await cli("init", "aws", folder, "--database", "sqlserver")).code).toBe(0);
    const own = await readFile(join(root, "serverless.yml"), "utf8");
    const made = await readFile(join(folder, "serverless.yml"), "utf8");
    expect(made.match(/^ {4}database: .*$/gm)).toEqual(["    database: sqlserver"]);
    expect(made.replace("    database: sqlserver\n", "    database: postgres\n")).toBe(own);
  });

  it.each([
    { cloud: "aws", added: ["aws/inbox-service.ts"], script: "package aws --database postgres --service" },
    { cloud: "azure", added: [], script: "package azure --database sqlserver" },
  ])("SVC-07 FUN-10 --service: an app for $cloud has the inbox service", async ({ cloud, added, script }) => {
    const [without, folder] = [join(parent, `${cloud}-without`), join(parent, `${cloud}-service`)];
    expect((await cli("init", cloud, without)).code).toBe(0);
    expect((await cli("init", cloud, folder, "--service")).code).toBe(0);
    const [before, after] = [await filesIn(without), await filesIn(folder)];
    expect(after.filter((name) => !before.includes(name))).toEqual(added.map((name) => `functions/${name}`));
    const service = 'service: { tokens: { from: "env", name: "INBOX_SERVICE_TOKENS" } },';
    expect(await readFile(join(folder, "functions/app.ts"), "utf8")).toContain(`\n  ${service}\n`);
    expect(await readFile(join(without, "functions/app.ts"), "utf8")).not.toContain("service:");
    const { scripts } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    expect(scripts[`package:${cloud}`]).toBe(`oncebox ${script}`);
  });

  it.each([
    { cloud: "aws", added: ["aws/admin.ts"], script: "package aws --database postgres --admin" },
    { cloud: "azure", added: [], script: "package azure --database sqlserver" },
  ])("MSG-14 FUN-10 --admin: an app for $cloud has the diagnostics API", async ({ cloud, added, script }) => {
    const [without, folder] = [join(parent, `${cloud}-closed`), join(parent, `${cloud}-admin`)];
    expect((await cli("init", cloud, without)).code).toBe(0);
    expect((await cli("init", cloud, folder, "--admin")).code).toBe(0);
    const [before, after] = [await filesIn(without), await filesIn(folder)];
    expect(after.filter((name) => !before.includes(name))).toEqual(added.map((name) => `functions/${name}`));
    const admin = 'admin: { tokens: { from: "env", name: "ONCEBOX_ADMIN_TOKENS" } },';
    expect(await readFile(join(folder, "functions/app.ts"), "utf8")).toContain(`\n  ${admin}\n`);
    expect(await readFile(join(without, "functions/app.ts"), "utf8")).not.toContain("admin:");
    const { scripts } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    expect(scripts[`package:${cloud}`]).toBe(`oncebox ${script}`);
  });

  it.each([
    { cloud: "aws", added: ["aws/recover-github.ts"], script: "package aws --database postgres --recover" },
    { cloud: "azure", added: [], script: "package azure --database sqlserver" },
  ])(
    "FUN-10 --recover: an app for $cloud asks GitHub for failed deliveries",
    async ({ cloud, added, script }) => {
      const [without, folder] = [join(parent, `${cloud}-alone`), join(parent, `${cloud}-recover`)];
      expect((await cli("init", cloud, without)).code).toBe(0);
      expect((await cli("init", cloud, folder, "--recover")).code).toBe(0);
      const [before, after] = [await filesIn(without), await filesIn(folder)];
      expect(after.filter((name) => !before.includes(name))).toEqual(
        added.map((name) => `functions/${name}`),
      );
      const { scripts } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
      expect(scripts[`package:${cloud}`]).toBe(`oncebox ${script}`);
    },
  );

  it.each([
    {
      cloud: "aws",
      added: ["aws/message-dispatch.ts", "aws/message-maintain.ts", "aws/message-receive.ts", "service.ts"],
      script: "package aws --database postgres --messaging",
    },
    {
      cloud: "azure",
      added: ["azure/messages.ts", "service.ts"],
      script: "package azure --database sqlserver",
    },
  ])(
    "MSG-01 MSG-05 FUN-10 --messaging: an app for $cloud has a service, its functions and the package of its schemas",
    async ({ cloud, added, script }) => {
      const [without, folder] = [join(parent, `${cloud}-silent`), join(parent, `${cloud}-messaging`)];
      expect((await cli("init", cloud, without)).code).toBe(0);
      expect((await cli("init", cloud, folder, "--messaging")).code).toBe(0);
      const [before, after] = [await filesIn(without), await filesIn(folder)];
      expect(after.filter((name) => !before.includes(name))).toEqual(
        added.map((name) => `functions/${name}`),
      );
      for (const name of added)
        expect(await readFile(join(folder, "functions", name), "utf8")).not.toContain("/src/");
      const manifestIn = async (app: string) => JSON.parse(await readFile(join(app, "package.json"), "utf8"));
      const { scripts, dependencies } = await manifestIn(folder);
      expect(scripts[`package:${cloud}`]).toBe(`oncebox ${script}`);
      expect(dependencies.zod).toMatch(/^\^\d/);
      expect((await manifestIn(without)).dependencies.zod).toBeUndefined();
      if (cloud === "aws") return;
      const main = (app: string) => readFile(join(app, "functions/azure/main.ts"), "utf8");
      expect(await main(folder)).toBe(`import "./messages.js";\n${await main(without)}`);
    },
  );

  it.each(["aws", "azure"])(
    "FUN-10 an app for %s has a README with commands that exist, and keeps local files out of git",
    async (cloud) => {
      const folder = join(parent, `${cloud}-readme`);
      expect((await cli("init", cloud, folder)).code).toBe(0);
      const text = (name: string) => readFile(join(folder, name), "utf8");
      const [readme, manifest] = [await text("README.md"), JSON.parse(await text("package.json"))];
      const scripts = [...readme.matchAll(/^npm run (\S+)/gm)].map(([, script]) => script!);
      expect(scripts).toEqual(expect.arrayContaining([`package:${cloud}`]));
      expect(scripts.filter((script) => manifest.scripts[script] === undefined)).toEqual([]);
      const names = [...readme.matchAll(/^npx oncebox (\S+)/gm)].map(([, name]) => name!);
      expect(names).toEqual(expect.arrayContaining(["sign", "status", "migrate"]));
      expect(names.filter((name) => !commands.some((command) => command.name === name))).toEqual([]);
      expect((await text(".gitignore")).split("\n")).toEqual(
        expect.arrayContaining(["node_modules/", "build/", "local.settings.json", ".env", "*.db"]),
      );
      expect(manifest.engines.node).toBe(">=20.19");
      expect(manifest.devDependencies).toHaveProperty("@photostructure/sqlite"); // for Node before 22.13
    },
  );

  it("FUN-10 the local settings of a new Azure app are those of the documented steps", async () => {
    const folder = join(parent, "azure-local");
    expect((await cli("init", "azure", folder, "--database", "postgres")).code).toBe(0);
    const example = JSON.parse(await readFile(join(folder, "local.settings.json.example"), "utf8"));
    const page = await readFile(join(root, "docs/azure.md"), "utf8");
    const [, documented = ""] = /```json\n(\{\n {2}"IsEncrypted"[\s\S]*?)```/.exec(page) ?? [];
    expect(example).toEqual(JSON.parse(documented));
  });

  it("FUN-10 an app for Azure makes the database that it is for, and no other", async () => {
    const databaseOf = async (database: string) => {
      const folder = join(parent, `azure-on-${database}`);
      expect((await cli("init", "azure", folder, "--database", database)).code).toBe(0);
      expect(await filesIn(folder)).toContain("infra/azure/hooks.mjs"); // which azure.yaml runs
      expect(await filesIn(folder)).toContain(`infra/sql/users-${database}.sql`); // which the archive takes along
      return JSON.parse(await readFile(join(folder, "infra/azure/main.parameters.json"), "utf8")).parameters
        .database.value;
    };
    expect(await databaseOf("postgres")).toMatch(/DATABASE=postgres/);
    expect(await databaseOf("sqlserver")).toMatch(/DATABASE=sqlserver/);
  });

  it("overwrites nothing, and refuses an unknown cloud or database", async () => {
    expect(await cli("init", "aws", root)).toMatchObject({
      code: 2,
      text: expect.stringContaining("is not empty"),
    });
    const folder = join(parent, "new");
    expect(await cli("init", "gcp", folder)).toMatchObject({
      code: 2,
      text: expect.stringContaining("The cloud must be aws or azure."),
    });
    expect(await cli("init", "aws", folder, "--database", "mysql")).toMatchObject({
      code: 2,
      text: expect.stringContaining("--database must be postgres or sqlserver."),
    });
    await expect(readdir(folder)).rejects.toMatchObject({ code: "ENOENT" });
  });
});
