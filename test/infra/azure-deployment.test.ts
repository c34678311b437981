import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { QueueServiceClient } from "@azure/storage-queue";
import mssql from "mssql";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import {
  azureFolder,
  type BicepFile,
  type BicepObject,
  type BicepResource,
  readBicepFiles,
} from "../../scripts/bicep-files.js";
import { readAzureSettings } from "../../src/config/azure-settings.js";
import { readEnvironment } from "../../src/config/environment.js";
import { isSecretReference } from "../../src/config/secret-reference.js";
import { migrate } from "../../src/index.js";
import { inboxServiceDefaults } from "../../src/service/http/service-options.js";
import { startAzurite } from "../runtime/azure/azurite.js";
import { startFunctionsHost } from "../runtime/azure/functions-host.js";
import { localTls } from "../runtime/azure/local-tls.js";
import { stripeWebhook } from "../runtime/scenarios.js";
import { root, runPackage } from "./aws-stack.js";
import { ownDatabase } from "./own-database.js";
import { unpacked } from "./unpacked.js";

const hasBicep = spawnSync("bicep", ["--version"]).status === 0;

describe("the Bicep files for Azure", () => {
  let files: readonly BicepFile[];
  beforeAll(async () => {
    files = await readBicepFiles();
  });

  const file = (name: string) => files.find((one) => one.name === name)!;
  const resources = (type: string): readonly BicepResource[] =>
    files.flatMap((one) => one.resources).filter((resource) => resource.type === type);
  const only = (type: string): BicepObject => {
    expect(resources(type)).toHaveLength(1);
    return resources(type)[0]!.body;
  };
  const propertiesOf = (body: BicepObject) => body.properties as BicepObject;

  it("FUN-10 are read without an error, and every module gets the parameters that it asks for", () => {
    expect(files.length).toBeGreaterThan(8);
    for (const { name, errors } of files) expect({ name, errors }).toEqual({ name, errors: [] });
    for (const [symbol, { file: name, params }] of Object.entries(file("main.bicep").modules)) {
      const asked = [...file(name).text.matchAll(/^param (\w+) /gm)].map(([, param]) => param);
      expect({ symbol, params: Object.keys(params).sort() }).toEqual({ symbol, params: asked.sort() });
      const given = new Set([...file(name).text.matchAll(/^output (\w+) /gm)].map(([, output]) => output));
      for (const [, output] of file("main.bicep").text.matchAll(
        new RegExp(`\\b${symbol}!?\\.outputs\\.(\\w+)`, "g"),
      )) {
        expect(given).toContain(output);
      }
    }
  });

  it("FUN-10 the parameters' file names parameters of main.bicep, and every one that must be given", async () => {
    const { parameters } = JSON.parse(await readFile(join(azureFolder, "main.parameters.json"), "utf8"));
    const declared = [...file("main.bicep").text.matchAll(/^param (\w+) \w+( =)?/gm)];
    const names = declared.map(([, name]) => name);
    expect(names).toEqual(expect.arrayContaining(Object.keys(parameters)));
    const required = declared.filter(([, , hasDefault]) => hasDefault === undefined).map(([, name]) => name);
    expect(Object.keys(parameters)).toEqual(expect.arrayContaining(required));
  });

  it("FUN-10 the names of everything have the app's in them, so that two of them in one subscription have nothing in common", () => {
    const { variables, modules, resources: own } = file("main.bicep");
    expect(variables.name).toContain("applicationName");
    expect(variables.suffix).toContain("applicationName");
    expect(own[0]!.body.name).toMatch(/^rg-\$\{name\}$/);
    for (const { params } of Object.values(modules)) {
      const names = Object.entries(params).filter(([param]) => /^(name|serverName)$/.test(param));
      for (const [, value] of names) expect(value).toMatch(/^name$|\$\{(name|suffix)\}/);
    }
  });

  it("FUN-10 the function app runs on Flex Consumption, as an identity of its own", () => {
    expect(only("Microsoft.Web/serverfarms").sku).toEqual({ tier: "FlexConsumption", name: "FC1" });
    const { identity, properties } = only("Microsoft.Web/sites") as {
      identity: BicepObject;
      properties: BicepObject;
    };
    expect(identity.type).toBe("UserAssigned");
    expect(properties).toMatchObject({
      httpsOnly: "true",
      functionAppConfig: {
        runtime: { name: "node" },
        deployment: { storage: { authentication: { type: "UserAssignedIdentity" } } },
      },
    });
  });

  it("FUN-10 there is no password and no key: the database takes Entra alone, storage no shared key", () => {
    expect(propertiesOf(only("Microsoft.Sql/servers"))).toMatchObject({
      administrators: { azureADOnlyAuthentication: "true" },
      minimalTlsVersion: "1.2",
    });
    expect(propertiesOf(only("Microsoft.Storage/storageAccounts"))).toMatchObject({
      allowSharedKeyAccess: "false",
      allowBlobPublicAccess: "false",
    });
    expect(propertiesOf(only("Microsoft.Insights/components")).DisableLocalAuth).toBe("true");
    expect(propertiesOf(only("Microsoft.KeyVault/vaults"))).toMatchObject({
      enableRbacAuthorization: "true",
      enablePurgeProtection: "true",
    });
    for (const { name, text } of files) {
      expect({
        name,
        found: text.match(/listKeys|listSecrets|AccountKey|administratorLoginPassword/g),
      }).toEqual({
        name,
        found: null,
      });
    }
  });

  it("FUN-10 the identity has roles on single resources, none of which can manage anything", () => {
    const assignments = resources("Microsoft.Authorization/roleAssignments");
    expect(assignments.map(({ body }) => body.scope).sort()).toEqual([
      "account",
      "applicationInsights",
      "vault",
    ]);
    const roles = assignments.flatMap(({ file: name }) => Object.values(file(name).variables).flat());
    const ids = roles.filter((role) => /^[0-9a-f]{8}-/.test(String(role)));
    expect(ids.sort()).toEqual([
      "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3", // Storage Table Data Contributor
      "3913510d-42f4-4e42-8a64-420c390055eb", // Monitoring Metrics Publisher
      "4633458b-17de-408a-b874-0445c86b69e6", // Key Vault Secrets User
      "974c5e8b-45b9-4653-ba55-5f855dd0fb88", // Storage Queue Data Contributor
      "b7e6dc6d-f1e8-4753-8033-0f276bb0955b", // Storage Blob Data Owner
    ]);
  });

  const queueNames = (): Record<string, string> => {
    const outputs = [...file("storage.bicep").text.matchAll(/^output (\w+Queue) string = (\w+)\.name$/gm)];
    const queues = resources("Microsoft.Storage/storageAccounts/queueServices/queues");
    return Object.fromEntries(
      outputs.map(([, output, symbol]) => [
        output,
        String(queues.find((queue) => queue.symbol === symbol)!.body.name),
      ]),
    );
  };

  it("FUN-10 every queue has one beside it for what failed too often, named as the host expects", () => {
    const queues = resources("Microsoft.Storage/storageAccounts/queueServices/queues");
    const names = queues.map(({ body }) => String(body.name));
    const read = Object.values(queueNames());
    expect(read).toEqual(["oncebox-wake-up", "oncebox-incoming"]);
    expect(names.sort()).toEqual(read.flatMap((name) => [name, `${name}-poison`]).sort());
  });

  const values: Record<string, string> = {
    vaultUrl: "https://kv.vault.azure.net/",
    sqlServer: "sql.database.windows.net",
    sqlDatabase: "oncebox",
    clientId: "00000000-0000-0000-0000-00000000c11d",
    storageName: "stoncebox",
    reapMinutes: "10",
  };
  /** The environment that a variable of functions.bicep with settings makes. */
  const environmentOf = (variable: string): Record<string, string> => {
    const known = { ...values, ...queueNames() };
    const settings = file("functions.bicep").variables[variable] as Record<string, string>;
    return Object.fromEntries(
      Object.entries(settings).map(([name, text]) => [
        name,
        known[text] ?? text.replace(/\$\{(\w+)\}/g, (_, one: string) => known[one]!),
      ]),
    );
  };

  it("FUN-10 the app's settings are settings that the functions read, and find everything by the identity", async () => {
    const env = environmentOf("settings");
    const { databaseUrl, sources } = await readEnvironment(env);
    expect(sources?.stripe?.secrets).toEqual([
      { from: "azure-key-vault", vault: values.vaultUrl, name: "stripe-webhook-secret" },
    ]);
    expect(readAzureSettings(env).consumeQueue).toBe("oncebox-incoming");
    expect(readAzureSettings(env).schedules.reap).toBe("35 */10 * * * *");
    expect(readAzureSettings(env).wakeUp).toEqual({
      queue: "oncebox-wake-up",
      storage: { queueServiceUrl: "https://stoncebox.queue.core.windows.net", clientId: values.clientId },
    });
    expect(mssql.ConnectionPool.parseConnectionString(databaseUrl as string)).toMatchObject({
      server: values.sqlServer,
      database: "oncebox",
      authentication_type: "azure-active-directory-default",
      clientId: values.clientId,
      options: { encrypt: true },
    });
  });

  it("FUN-10 alerts on dead letters, the oldest age, failures and the limit of instances read what the functions log", () => {
    const rules = file("alerts.bicep").variables.rules as readonly BicepObject[];
    expect(rules.map(({ name }) => name)).toEqual([
      "dead-letters",
      "oldest-age",
      "no-reap",
      "failures",
      "webhook-failures",
      "at-limit",
    ]);
    const query = (name: string) => String(rules.find((rule) => rule.name === name)!.query);
    expect(query("dead-letters")).toContain('line.message == "message is dead"');
    expect(query("oldest-age")).toContain('line.message == "queue" and toint(line.oldestDueAgeMs)');
    expect(query("webhook-failures")).toContain('line.message == "webhook" and toint(line.status) >= 500');
    expect(propertiesOf(only("Microsoft.Insights/scheduledQueryRules")).actions).toEqual({
      actionGroups: ["people.id"],
    });
  });

  describe("with service", () => {
    const serviceRules = () => file("alerts.bicep").variables.serviceRules as readonly BicepObject[];

    it("SVC-07 FUN-10 it is off unless asked for, and then adds one setting and three alerts, and changes nothing else", async () => {
      expect(file("main.bicep").text).toMatch(/^param service bool = false$/m);
      const { parameters } = JSON.parse(await readFile(join(azureFolder, "main.parameters.json"), "utf8"));
      expect(parameters.service.value).toMatch(/^\$\{INBOX_SERVICE=false\}$/);
      for (const module of ["functions", "alerts"]) {
        expect(file("main.bicep").modules[module]!.params.service).toBe("service");
      }
      // All that depends on it.
      const uses = files.flatMap(({ name, text }) =>
        [...text.matchAll(/^.*\bservice \?.*$/gm)].map(([line]) => `${name}: ${line.trim()}`),
      );
      expect(uses).toEqual([
        "alerts.bicep: for rule in concat(rules, service ? serviceRules : [], admin ? adminRules : []): {",
        "functions.bicep: properties: union(settings, service ? serviceSettings : {}, admin ? adminSettings : {})",
      ]);
      expect(Object.keys(environmentOf("settings"))).not.toContain("INBOX_SERVICE_TOKENS");
    });

    it("SVC-07 FUN-10 the setting names a secret of the vault, which the identity may read already, and holds no token", () => {
      const settings = environmentOf("serviceSettings");
      expect(Object.keys(settings)).toEqual(["INBOX_SERVICE_TOKENS"]);
      const reference = JSON.parse(settings.INBOX_SERVICE_TOKENS!);
      expect(reference).toEqual({
        from: "azure-key-vault",
        vault: values.vaultUrl,
        name: "inbox-service-tokens",
      });
      expect(isSecretReference(reference)).toBe(true);
      expect(resources("Microsoft.KeyVault/vaults/secrets")).toEqual([]); // put in by hand
    });

    it("FUN-10 it is reached by HTTPS alone, from TLS 1.2", () => {
      expect(propertiesOf(only("Microsoft.Web/sites"))).toMatchObject({
        httpsOnly: "true",
        siteConfig: { minTlsVersion: "1.2" },
      });
    });

    it("FUN-10 alerts on its answers 5xx, slow requests and the limit of instances read what its function logs", () => {
      const query = (name: string) => String(serviceRules().find((rule) => rule.name === name)!.query);
      expect(serviceRules().map(({ name }) => name)).toEqual([
        "inbox-service-failures",
        "inbox-service-slow",
        "inbox-service-at-limit",
      ]);
      expect(query("inbox-service-failures")).toContain(
        'line.message == "inbox service" and toint(line.status) >= 500',
      );
      const [, ms] = /name == "inbox-service MaxDurationMs" and value > (\d+)$/.exec(
        query("inbox-service-slow"),
      )!;
      expect(Number(ms)).toBeLessThan(inboxServiceDefaults.minLeaseSeconds * 1_000);
      expect(query("inbox-service-at-limit")).toContain('name == "inbox-service Count"');
      // The same fields as the others, because one loop makes them all.
      const [first] = file("alerts.bicep").variables.rules as readonly BicepObject[];
      for (const rule of serviceRules()) expect(Object.keys(rule)).toEqual(Object.keys(first!));
    });
  });

  describe("with admin", () => {
    it("MSG-14 FUN-10 it is off unless asked for, and then adds one setting, a secret of the vault, and two alerts", async () => {
      expect(file("main.bicep").text).toMatch(/^param admin bool = false$/m);
      const { parameters } = JSON.parse(await readFile(join(azureFolder, "main.parameters.json"), "utf8"));
      expect(parameters.admin.value).toMatch(/^\$\{ADMIN_API=false\}$/);
      for (const module of ["functions", "alerts"])
        expect(file("main.bicep").modules[module]!.params.admin).toBe("admin");
      const settings = environmentOf("adminSettings");
      expect(Object.keys(settings)).toEqual(["ONCEBOX_ADMIN_TOKENS"]);
      const reference = JSON.parse(settings.ONCEBOX_ADMIN_TOKENS!);
      expect(reference).toEqual({ from: "azure-key-vault", vault: values.vaultUrl, name: "admin-tokens" });
      expect(isSecretReference(reference)).toBe(true);
      const { rules, adminRules } = file("alerts.bicep").variables as Record<string, readonly BicepObject[]>;
      expect(adminRules!.map(({ name }) => name)).toEqual(["admin-failures", "admin-refused"]);
      for (const rule of adminRules!) {
        expect(Object.keys(rule)).toEqual(Object.keys(rules![0]!));
        expect(rule.query).toContain('line.message == "admin" and toint(line.status)');
      }
    });
  });

  it("FUN-04 FUN-10 the alerts' windows hold three runs of reap for each reapMinutes, and Azure accepts them", () => {
    const { windows, rules } = file("alerts.bicep").variables as {
      windows: Record<string, Record<"oldestAge" | "noReap", string>>;
      rules: readonly BicepObject[];
    };
    const [, allowed] = /@allowed\(\[([\d, ]+)\]\)\nparam reapMinutes int = 1\n/.exec(
      file("main.bicep").text,
    )!;
    expect(Object.keys(windows)).toEqual(allowed!.split(", "));
    const minutes: Record<string, number> = { PT5M: 5, PT15M: 15, PT30M: 30, PT45M: 45, PT1H: 60, PT2H: 120 };
    for (const [every, { oldestAge, noReap }] of Object.entries(windows)) {
      expect(minutes[oldestAge]! / Number(every)).toBeGreaterThanOrEqual(3);
      expect(minutes[noReap]! / Number(every)).toBeGreaterThanOrEqual(3);
    }
    const window = (name: string) => rules.find((rule) => rule.name === name)!.window;
    expect(window("oldest-age")).toBe("windows[string(reapMinutes)].oldestAge");
    expect(window("no-reap")).toBe("windows[string(reapMinutes)].noReap");
  });

  it("FUN-10 host.json sends what alerts read, drops none of it, and sends nothing for a message that went well", async () => {
    const { logging } = JSON.parse(await readFile(join(root, "host.json"), "utf8"));
    const { default: otherwise, ...levels } = logging.logLevel;
    // Dead letters are warnings, and 5xx responses errors. Only the age of the oldest message is logged at each run.
    expect(otherwise).toBe("Warning");
    expect(levels).toEqual({
      "Host.Results": "Error", // requests that failed
      "Host.Aggregator": "Information", // how many there were of every function, twice a minute
      "Function.reap.User": "Information",
    });
    const { samplingSettings } = logging.applicationInsights;
    expect(samplingSettings.excludedTypes.split(";")).toEqual(
      expect.arrayContaining(["Request", "Exception", "Trace"]),
    );
  });

  it("FUN-10 with private networking nothing but the functions has a public address", () => {
    for (const type of [
      "Microsoft.Sql/servers",
      "Microsoft.Storage/storageAccounts",
      "Microsoft.KeyVault/vaults",
    ]) {
      expect(propertiesOf(only(type)).publicNetworkAccess).toBe("privateNetworking ? 'Disabled' : 'Enabled'");
    }
    const targets = file("private-endpoints.bicep").variables.targets as readonly BicepObject[];
    expect(targets.map(({ name }) => name)).toEqual(["blob", "queue", "table", "vault", "sqlServer"]);
  });

  it("FUN-10 azure.yaml deploys the folder that npm run package:azure makes, to the app that has its tag", async () => {
    const { infra, services } = parse(await readFile(join(root, "azure.yaml"), "utf8"));
    expect(infra).toMatchObject({ provider: "bicep", path: "infra/azure", module: "main" });
    expect(services.functions).toMatchObject({ project: ".", host: "function", dist: "build/azure/app" });
    expect(services.functions.hooks.prepackage.posix.run).toBe("npm run package:azure");
    expect(file("functions.bicep").text).toContain("'azd-service-name': 'functions'");
  });
});

describe.skipIf(!hasBicep)("Bicep's own compiler (where it is installed)", () => {
  it("FUN-10 compiles the files without an error", () => {
    const { status, stderr } = spawnSync("bicep", ["build", "--stdout", join(azureFolder, "main.bicep")], {
      encoding: "utf8",
    });
    expect({ status, errors: stderr.match(/.*: Error .*/g) }).toEqual({ status: 0, errors: null });
  });
});

describe("the archive for Azure", () => {
  let out: string;
  const folders: string[] = [];
  const closing: (() => Promise<unknown>)[] = [];
  beforeAll(async () => {
    out = await mkdtemp(join(tmpdir(), "oncebox-azure-archive-"));
    folders.push(out);
  });
  afterAll(async () => {
    for (const close of closing.reverse()) await close();
    await Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true })));
  });

  const archived = async (name: string, ...args: readonly string[]) => {
    await runPackage("azure", join(out, name), ...args);
    const deployed = await readdir(join(out, name, "app"), { recursive: true });
    expect(deployed).toContain("main.mjs");
    expect(deployed.filter((file) => file.endsWith(".map"))).toEqual([]); // azd deploys the folder
    expect(await readdir(join(out, name, "source-maps"))).toContain("main.mjs.map");
    const folder = await unpacked(join(out, name, "app.zip"));
    folders.push(folder);
    return folder;
  };

  it("FUN-09 FUN-10 unpacked with nothing beside it, every function in it does its job", async () => {
    const [folder, azurite, database] = await Promise.all([
      archived("postgres", "--database", "postgres"),
      startAzurite(),
      ownDatabase(),
    ]);
    closing.push(azurite.stop, database.drop);
    await migrate(database.db);
    const host = await startFunctionsHost(
      folder,
      {
        ...localTls.env,
        ONCEBOX_DATABASE_URL: database.url,
        STRIPE_WEBHOOK_SECRET: "whsec_scenarios_secret_of_tests",
        ONCEBOX_WAKE_QUEUE: "oncebox-wake-up",
        ONCEBOX_CONSUME_QUEUE: "oncebox-incoming",
        AzureWebJobsStorage: azurite.connectionString,
      },
      60_000,
    );
    closing.push(host.stop);
    expect(Object.keys(host.functions).sort()).toEqual([
      "cleanup",
      "consume",
      "dispatch",
      "reap",
      "wakeup",
      "webhook",
    ]);
    const messages = () => host.lines().map(({ message }) => message);

    expect((await host.webhook(stripeWebhook("evt_1"))).status).toBe(200);
    // A wake-up that takes too long is given up. Then the timer starts the dispatcher; here another webhook does.
    let more = 1;
    const afterAnother = async () => {
      await host.webhook(stripeWebhook(`evt_${++more}`));
      return messages();
    };
    await expect
      .poll(afterAnother, { timeout: 40_000, interval: 1_000 })
      .toContain('wakeup took {"oncebox":"wake-up"}');
    await expect.poll(messages, { timeout: 30_000 }).toContain("sending the receipt of evt_1");

    const incoming = QueueServiceClient.fromConnectionString(azurite.connectionString, {
      tlsOptions: { ca: localTls.read().cert },
    } as object).getQueueClient("oncebox-incoming"); // an option of its HTTP pipeline that the type does not name
    await incoming.createIfNotExists();
    const { messageId } = await incoming.sendMessage(Buffer.from('{"order":1}').toString("base64"));
    await expect.poll(messages, { timeout: 30_000 }).toContain('consume took {"order":1}');
    await expect.poll(messages, { timeout: 30_000 }).toContain(`sending the receipt of ${messageId}`);
    expect(await host.run("dispatch")).toMatchObject({ more: false });
    expect(await host.run("reap")).toMatchObject({ inbox: { done: 0 }, outbox: { done: 0 } });
    expect(messages()).toContainEqual(
      expect.stringMatching(/^\{.*"message":"queue","queue":"inbox","oldestDueAgeMs":0\}$/),
    );
    expect(await host.run("cleanup")).toMatchObject({ inbox: { done: 0 }, outbox: { done: 0 } });
  });

  it("FUN-10 the one for Azure SQL starts as well; while the database is away webhooks are answered 503", async () => {
    const folder = await archived("sqlserver");
    const host = await startFunctionsHost(
      folder,
      {
        ONCEBOX_DATABASE_URL: "Server=tcp:127.0.0.1,1;Database=oncebox;User Id=nobody;Password=none",
        STRIPE_WEBHOOK_SECRET: "whsec_scenarios_secret_of_tests",
      },
      60_000,
    );
    closing.push(host.stop);
    expect(Object.keys(host.functions).sort()).toEqual(["cleanup", "dispatch", "reap", "webhook"]);
    expect((await host.webhook(stripeWebhook("evt_1"))).status).toBe(503);
  });
});
