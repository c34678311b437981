import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import mssql from "mssql";
import { beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { type AzureTypes, problemsOfResource } from "../../scripts/azure-types.js";
import { azureFolder, type BicepFile, readBicepFiles } from "../../scripts/bicep-files.js";
import { functionGroups, readAzureSettings } from "../../src/config/azure-settings.js";
import { databaseRoles, readDatabaseUsers } from "../../src/config/database-users.js";
import { readEnvironment, readGithubRecovery, readMessaging } from "../../src/config/environment.js";
import { isSecretReference } from "../../src/config/secret-reference.js";
import { inboxServiceDefaults } from "../../src/inbox-store/http/inbox-service.js";
import { connectionSettings } from "../../src/sql/postgres/entra.js";
import { isPrepared } from "../../src/sql/postgres/open.js";
import { root } from "../support/markdown.js";
import { plannedBodies, required, variants } from "./azure-variants.js";
import { bicepPlan, type Plan, type Value } from "./bicep-plan.js";

const read = (name: string) => readFile(join(root, name), "utf8");

const plans = new Map<string, Plan>();
let files: readonly BicepFile[];
beforeAll(async () => {
  files = await readBicepFiles();
  for (const [name, params] of Object.entries(variants))
    plans.set(name, await bicepPlan({ ...required, ...params }));
});

const plan = (name = "as it is"): Plan => plans.get(name)!;
const all = (type: string, variant?: string) => plan(variant).resources.filter((one) => one.type === type);
const file = (name: string) => files.find((one) => one.name === name)!;
const apps = (variant?: string) => all("Microsoft.Web/sites", variant);

const roleNames: Readonly<Record<string, string>> = {
  "b7e6dc6d-f1e8-4753-8033-0f276bb0955b": "Storage Blob Data Owner",
  "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1": "Storage Blob Data Reader",
  "ba92f5b4-2d11-453d-a403-e96b0029c9fe": "Storage Blob Data Contributor",
  "974c5e8b-45b9-4653-ba55-5f855dd0fb88": "Storage Queue Data Contributor",
  "c6a89b2d-59bc-44d0-9896-0f6e12d7b80a": "Storage Queue Data Message Sender",
  "3913510d-42f4-4e42-8a64-420c390055eb": "Monitoring Metrics Publisher",
  "4633458b-17de-408a-b874-0445c86b69e6": "Key Vault Secrets User",
  "4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0": "Azure Service Bus Data Receiver",
};

/** What the identity of an app may do: "role on resource". */
const rightsOf = (app: string, variant?: string): readonly string[] =>
  all("Microsoft.Authorization/roleAssignments", variant)
    .filter(({ body }) => String(body.properties.principalId) === `<${app}Identity.principalId>`)
    .map(({ body, module }) => {
      const role = roleNames[String(body.properties.roleDefinitionId).split("/").at(-1)!];
      const scope = String(body.scope).slice(1, -1).replace(`${module}.`, "");
      const secret = module === "vault" ? ` ${String(body.name).split(", ")[1]}` : "";
      return `${role} on ${module} ${scope.replace(/^granted.*/, "secret")}${secret}`;
    })
    .sort();

/** The environment of an app's functions, as far as the templates say. */
const environmentOf = (app: string, variant?: string): Record<string, string> => {
  const found = all("Microsoft.Web/sites/config", variant).find(({ module }) => module === `${app}App`)!;
  const known: Record<string, string> = {
    "<vault.url>": "https://kv.vault.azure.net/",
    "<queues.url>": "https://stq.queue.core.windows.net/",
    "<queues.wakeUpQueue>": "oncebox-wake-up",
    "<queues.incomingQueue>": "oncebox-incoming",
    "<sqlServer.server>": "sql.database.windows.net",
    "<sqlServer.database>": "oncebox",
    "<postgres.server>": "psql.postgres.database.azure.com",
    "<postgres.database>": "oncebox",
  };
  const guid = (text: string) =>
    text
      .replace(/<(\w+)Identity\.(clientId|principalId)>/g, "00000000-0000-4000-8000-000000000001")
      .replace(/<(\w+)Identity\.name>/g, "id-orders-prod-$1");
  return Object.fromEntries(
    Object.entries(found.body.properties).map(([name, value]) => [
      name,
      guid(Object.entries(known).reduce((text, [from, to]) => text.replaceAll(from, to), String(value))),
    ]),
  );
};

/** Producers are services of others, in other languages: no function app of ours is one. */
const rolesOfApps = databaseRoles.filter((role) => role !== "oncebox_producers");

describe("the Bicep files for Azure", () => {
  it("FUN-10 parse without an error, and every module gets exactly its parameters", () => {
    expect(files.length).toBeGreaterThan(12);
    for (const { name, errors } of files) expect({ name, errors }).toEqual({ name, errors: [] });
    for (const [symbol, { file: name, params }] of Object.entries(file("main.bicep").modules)) {
      const asked = [...file(name).text.matchAll(/^param (\w+) [^=\n]*$/gm)].map(([, param]) => param);
      expect({ symbol, params: Object.keys(params).sort() }).toEqual({ symbol, params: asked.sort() });
      const given = new Set([...file(name).text.matchAll(/^output (\w+) /gm)].map(([, output]) => output));
      for (const [, output] of file("main.bicep").text.matchAll(
        new RegExp(`\\b${symbol}!?\\.outputs\\.(\\w+)`, "g"),
      )) {
        expect(given).toContain(output);
      }
    }
  });

  it("FUN-10 the parameters' file has every parameter of main.bicep, each with the same default", async () => {
    const { parameters } = JSON.parse(await read("infra/azure/main.parameters.json"));
    const declared = [...file("main.bicep").text.matchAll(/^param (\w+) \w+(?: = (.*))?$/gm)];
    expect(Object.keys(parameters)).toEqual(declared.map(([, name]) => name));
    for (const [, name, otherwise] of declared) {
      const { value } = parameters[name!] as { value: string };
      const [, , given] = /^\$\{([A-Z_]+)(?:=(.*))?\}$/.exec(value)!;
      expect({ name, default: given }).toEqual({ name, default: otherwise?.replace(/^'|'$/g, "") });
    }
  });

  it("FUN-10 all names contain the app's, and none is too long", () => {
    for (const [variant] of plans) {
      for (const { symbol, body, type } of plan(variant).resources) {
        if (!("location" in body)) continue; // it is a part of something, or its zone's name is Azure's
        if (/^Microsoft.Network\/private|\/databases$/.test(type)) continue;
        expect({ symbol, name: String(body.name) }).toEqual({
          symbol,
          name: expect.stringMatching(/orders-prod|abcdefghijklm|<\w+\.name>|ordersprod/),
        });
      }
      for (const { body } of all("Microsoft.Storage/storageAccounts", variant))
        expect(body.name).toMatch(/^[a-z0-9]{3,24}$/);
    }
  });
});

describe("a function app for each group of functions", () => {
  it("FUN-10 SVC-07 webhook, work and migrate always; service, admin and messaging when asked; each on a plan, an identity and a host account of its own", () => {
    const groups = (variant: string) => apps(variant).map(({ body }) => body.tags["azd-service-name"]);
    expect(groups("as it is")).toEqual(["webhook", "work", "migrate"]);
    expect(groups("with service")).toEqual(["webhook", "work", "migrate", "service"]);
    expect(groups("with messaging")).toEqual(["webhook", "work", "migrate", "messaging"]);
    expect(groups("everything")).toEqual(["webhook", "work", "migrate", "service", "admin", "messaging"]);
    expect([...functionGroups].sort()).toEqual(groups("everything").sort());
    for (const { module, body } of apps("everything")) {
      const group = module.replace("App", "");
      expect(Object.keys(body.identity.userAssignedIdentities)).toEqual([`<${group}Identity.id>`]);
      expect(String(body.properties.serverFarmId)).toBe(`<${module}.plan.id>`);
      expect(environmentOf(group, "everything")).toMatchObject({ ONCEBOX_FUNCTIONS: group });
    }
    const hosts = all("Microsoft.Storage/storageAccounts", "everything").filter(
      ({ symbol }) => symbol === "hostStorage",
    );
    expect(new Set(hosts.map(({ body }) => body.name)).size).toBe(6);
  });

  it("FUN-10 it runs on Flex Consumption, with HTTPS only, from TLS 1.2, and without passwords for deployments", () => {
    for (const { body } of all("Microsoft.Web/serverfarms", "everything"))
      expect(body.sku).toEqual({ tier: "FlexConsumption", name: "FC1" });
    for (const { body, module } of apps("everything")) {
      expect(body.properties).toMatchObject({
        httpsOnly: true,
        siteConfig: { minTlsVersion: "1.2" },
        functionAppConfig: {
          runtime: { name: "node" },
          deployment: { storage: { authentication: { type: "UserAssignedIdentity" } } },
          siteUpdateStrategy: { type: "RollingUpdate" },
        },
      });
      const off = all("Microsoft.Web/sites/basicPublishingCredentialsPolicies", "everything").filter(
        (one) => one.module === module,
      );
      expect(off.map(({ body: { name, properties } }) => [name, properties.allow])).toEqual([
        ["scm", false],
        ["ftp", false],
      ]);
    }
    expect(apps()[0]!.body.properties.functionAppConfig.siteUpdateStrategy.type).toBe("Recreate");
  });

  const always = (app: string) => [
    "Monitoring Metrics Publisher on APP applicationInsights".replace("APP", `${app}App`),
    `Storage Blob Data Owner on ${app}App hostStorage`,
    `Storage Blob Data Reader on ${app}App archive`,
  ];

  it("FUN-10 each identity has these rights and no other; no app may write an archive, its own or another's", () => {
    expect(rightsOf("webhook")).toEqual(
      [
        "Key Vault Secrets User on vault secret stripe-webhook-secret",
        ...always("webhook"),
        "Storage Queue Data Message Sender on queues wakeUps",
      ].sort(),
    );
    expect(rightsOf("work")).toEqual(
      [...always("work"), "Storage Queue Data Contributor on queues account"].sort(),
    );
    expect(rightsOf("migrate")).toEqual(always("migrate").sort());
    expect(rightsOf("service", "with service")).toEqual(
      [...always("service"), "Key Vault Secrets User on vault secret inbox-service-tokens"].sort(),
    );
    expect(rightsOf("admin", "with admin")).toEqual(
      [...always("admin"), "Key Vault Secrets User on vault secret admin-tokens"].sort(),
    );
    expect(rightsOf("webhook", "with service")).toEqual(rightsOf("webhook"));
    expect(rightsOf("work", "Service Bus")).toEqual(
      [...rightsOf("work"), "Azure Service Bus Data Receiver on bus queue"].sort(),
    );
    expect(rightsOf("work", "recovery of GitHub")).toEqual(
      [...rightsOf("work"), "Key Vault Secrets User on vault secret github-token"].sort(),
    );
    for (const [variant] of plans) {
      for (const app of functionGroups) {
        expect(rightsOf(app, variant).join()).not.toMatch(/undefined|(Owner|Contributor) on \w+ archive/);
      }
    }
  });

  it("FUN-10 with tenants in a vault every app that finds them reads that vault, which holds nothing else", () => {
    expect(environmentOf("messaging", "everything")).not.toHaveProperty("TENANTS_VAULT_URL"); // it has one database
    expect(rightsOf("messaging", "everything").join()).not.toContain("tenantsVault");
    for (const app of functionGroups.filter((group) => group !== "messaging")) {
      const more = rightsOf(app, "everything").filter((right) => right.includes("tenantsVault"));
      // With tenants the inbox service has a store of its own.
      expect(more).toEqual(app === "service" ? [] : ["Key Vault Secrets User on tenantsVault vault"]);
      expect(environmentOf(app, "everything").TENANTS_VAULT_URL).toBe("<tenantsVault.url>");
    }
    expect(all("Microsoft.KeyVault/vaults").map(({ module }) => module)).toEqual(["vault"]);
    for (const app of ["webhook", "work", "migrate"])
      expect(environmentOf(app, "a catalogue of tenants").ONCEBOX_CATALOGUE_URL).toMatch(/^Server=tcp:sql\./);
  });

  it("FUN-10 the archives' rights: hooks give the right to write before a deployment and take it back after", async () => {
    const { hooks, services } = parse(await read("azure.yaml"));
    expect(hooks.predeploy.posix.run).toBe("npm run package:azure && node infra/azure/hooks.mjs allow");
    expect(hooks.postdeploy.posix.run).toBe("node infra/azure/hooks.mjs deny");
    expect(services.migrate.hooks.postdeploy.posix.run).toBe("node infra/azure/hooks.mjs migrate");
    const run = (task: string) =>
      execFileSync(process.execPath, [join(azureFolder, "hooks.mjs"), task, "--print"], {
        encoding: "utf8",
        env: {
          DEPLOYMENT_RIGHTS: "/c/webhook=1 /c/work=2",
          AZURE_RESOURCE_GROUP: "rg",
          MIGRATE_APP: "m",
          MIGRATE_URL: "https://m/migrate",
        },
      });
    const contributor = Object.keys(roleNames).find(
      (id) => roleNames[id] === "Storage Blob Data Contributor",
    )!;
    expect(run("allow").trim().split("\n")).toEqual(
      [
        ["1", "webhook"],
        ["2", "work"],
      ].map(
        ([id, app]) =>
          `az role assignment create --role ${contributor} --assignee-object-id ${id} --assignee-principal-type ServicePrincipal --scope /c/${app} --output none`,
      ),
    );
    expect(run("deny").trim().split("\n")).toEqual(
      [
        ["1", "webhook"],
        ["2", "work"],
      ].map(
        ([id, app]) => `az role assignment delete --role ${contributor} --assignee ${id} --scope /c/${app}`,
      ),
    );
    expect(run("migrate")).toContain("POST https://m/migrate");
    expect(() => run("other")).toThrow();
    expect(String(plan().outputs.DEPLOYMENT_RIGHTS).split(" ")).toHaveLength(3);
    const kept = await bicepPlan({ ...required, keepDeploymentRights: true });
    expect(
      kept.resources.find(({ symbol }) => symbol === "mayReadArchive")!.body.properties.roleDefinitionId,
    ).toContain(contributor);
  });

  it("FUN-10 a secret goes through Azure's own API, because the vault is private, and is in no argument", () => {
    const put = (input: string, ...args: readonly string[]) =>
      execFileSync(process.execPath, [join(azureFolder, "hooks.mjs"), "secret", ...args, "--print"], {
        encoding: "utf8",
        input,
        stdio: "pipe",
        env: {
          AZURE_SUBSCRIPTION_ID: "sub",
          AZURE_RESOURCE_GROUP: "rg",
          AZURE_KEY_VAULT: "kv",
          AZURE_TENANTS_VAULT: "kvt",
        },
      });
    const printed = put("whsec_hidden", "stripe-webhook-secret");
    expect(printed).toContain(
      "az rest --method put --url https://management.azure.com/subscriptions/sub/resourceGroups/rg/providers/Microsoft.KeyVault/vaults/kv/secrets/stripe-webhook-secret?api-version=",
    );
    expect(printed).not.toContain("hidden");
    expect(put("x", "tenant-acme", "--tenants")).toContain("/vaults/kvt/secrets/tenant-acme?");
    expect(() => put("", "stripe-webhook-secret")).toThrow(/as standard input/);
    expect(() => put("x", "../other")).toThrow(/Give a name/);
  });

  it("FUN-10 azure.yaml has a service for each app, deploys the folder that npm run package:azure makes, and migrates first", async () => {
    const { infra, services, hooks } = parse(await read("azure.yaml"));
    expect(infra).toMatchObject({ provider: "bicep", path: "infra/azure", module: "main" });
    expect(hooks.prepackage.posix.run).toBe("npm run package:azure");
    expect(Object.keys(services).sort()).toEqual([...functionGroups].sort());
    const { parameters } = JSON.parse(await read("infra/azure/main.parameters.json"));
    for (const [name, service] of Object.entries<Value>(services)) {
      expect(service).toMatchObject({
        project: ".",
        host: "function",
        dist: "build/azure/app",
        remoteBuild: false,
      });
      expect(service.uses).toEqual(name === "migrate" ? undefined : ["migrate"]);
    }
    expect(services.service.condition).toBe(parameters.service.value);
    expect(services.admin.condition).toBe(parameters.admin.value);
    expect(services.messaging.condition).toBe(parameters.messaging.value);
    expect(services.webhook.condition).toBeUndefined();
  });
});

describe("the settings of the function apps", () => {
  it("FUN-10 the webhook's are settings that it reads, and find everything by the identity", async () => {
    const env = environmentOf("webhook");
    const { databaseUrl, sources } = await readEnvironment(env);
    expect(sources?.stripe?.secrets).toEqual([
      { from: "azure-key-vault", vault: "https://kv.vault.azure.net/", name: "stripe-webhook-secret" },
    ]);
    const { wakeUp, functions, queueConnection } = readAzureSettings(env);
    expect([...functions]).toEqual(["webhook"]);
    expect(queueConnection).toBe("ONCEBOX_QUEUES");
    expect(wakeUp).toEqual({
      queue: "oncebox-wake-up",
      storage: { queueServiceUrl: "https://stq.queue.core.windows.net/", clientId: env.AZURE_CLIENT_ID },
    });
    expect(mssql.ConnectionPool.parseConnectionString(databaseUrl as string)).toMatchObject({
      server: "sql.database.windows.net",
      database: "oncebox",
      authentication_type: "azure-active-directory-default",
      options: { encrypt: true },
    });
    expect(Object.keys(env).filter((name) => /TOKENS|CONSUME|USERS/.test(name))).toEqual([]);
  });

  it("ADD-02 FUN-10 the worker's name its queues, its schedule and the retention of dead messages; with Service Bus that queue too", async () => {
    const env = environmentOf("work");
    expect(readAzureSettings(env)).toMatchObject({
      consumeQueue: "oncebox-incoming",
      consumeBusQueue: undefined,
    });
    expect(env).not.toHaveProperty("ONCEBOX_WEBHOOKS"); // it has no sender's secret
    const often = await bicepPlan({ ...required, reapMinutes: 10 });
    expect(often.modules.workApp!.settings.ONCEBOX_REAP_SCHEDULE).toBe("35 */10 * * * *");
    expect((await readEnvironment(env)).deadRetentionMs).toBeUndefined();
    const forgetful = await bicepPlan({ ...required, deadRetentionDays: 90 });
    expect(forgetful.modules.workApp!.settings.ONCEBOX_DEAD_RETENTION_DAYS).toBe("90");
    const bus = environmentOf("work", "Service Bus");
    expect(readAzureSettings(bus).consumeBusQueue).toBe("<bus.queue>");
    expect(bus).toMatchObject({
      ONCEBOX_BUS__fullyQualifiedNamespace: "<bus.hostName>",
      ONCEBOX_BUS__credential: "managedidentity",
      ONCEBOX_BUS__clientId: env.AZURE_CLIENT_ID,
    });
    const [queue] = all("Microsoft.ServiceBus/namespaces/queues", "Service Bus");
    expect(queue!.body).toMatchObject({ name: "oncebox-incoming", properties: { maxDeliveryCount: 10 } });
    expect(all("Microsoft.ServiceBus/namespaces", "Service Bus")[0]!.body.properties.disableLocalAuth).toBe(
      true,
    );
  });

  it("FUN-10 FUN-12 with webhooks of GitHub the worker asks for their failed deliveries, with a token of the vault", () => {
    expect(readGithubRecovery(environmentOf("work"))).toBeUndefined();
    expect(readGithubRecovery(environmentOf("work", "recovery of GitHub"))).toEqual({
      hooks: [
        { repository: "acme/shop", hookId: "123456789" },
        { organization: "acme", hookId: "42" },
      ],
      token: { from: "azure-key-vault", vault: expect.any(String), name: "github-token" },
    });
    for (const app of ["webhook", "migrate"] as const)
      expect(readGithubRecovery(environmentOf(app, "recovery of GitHub"))).toBeUndefined();
  });

  it("FUN-10 the migration gets every user with its client id and role, and is the database's administrator", () => {
    const { users } = readDatabaseUsers(environmentOf("migrate", "everything"));
    expect(users.map(({ name, role }) => [name, role])).toEqual([
      ["id-orders-prod-webhook", "oncebox_receivers"],
      ["id-orders-prod-work", "oncebox_functions"],
      ["id-orders-prod-service", "oncebox_service"],
      ["id-orders-prod-admin", "oncebox_operators"],
      ["id-orders-prod-messaging", "oncebox_messaging"],
    ]);
    expect(users.map(({ role }) => role).sort()).toEqual([...rolesOfApps].sort());
    const [server] = all("Microsoft.Sql/servers");
    expect(server!.body.properties.administrators).toMatchObject({
      azureADOnlyAuthentication: true,
      principalType: "Application",
    });
    expect(String(server!.body.properties.administrators.sid)).toBe("<migrateIdentity.clientId>");
    expect(String(plan().outputs.WORK_CLIENT_ID)).toBe("<workIdentity.clientId>");
  });

  it("SVC-07 MSG-14 tokens are references to secrets, each only in the settings of its own app", () => {
    for (const [app, name, secret] of [
      ["service", "INBOX_SERVICE_TOKENS", "inbox-service-tokens"],
      ["admin", "ONCEBOX_ADMIN_TOKENS", "admin-tokens"],
      ["messaging", "MESSAGING_TOKENS", "messaging-tokens"],
      ["messaging", "SHOP_SECRET", "messaging-shop"],
    ] as const) {
      const reference = JSON.parse(environmentOf(app, "everything")[name]!);
      expect(reference).toEqual({
        from: "azure-key-vault",
        vault: "https://kv.vault.azure.net/",
        name: secret,
      });
      expect(isSecretReference(reference)).toBe(true);
      const others = functionGroups.filter((group) => group !== app);
      for (const other of others) expect(environmentOf(other, "everything")).not.toHaveProperty(name);
    }
  });

  it("FUN-10 on PostgreSQL every app signs in as its own identity, the migration as administrator, and no URL is a secret", async () => {
    for (const app of functionGroups) {
      const env = environmentOf(app, "PostgreSQL");
      const { databaseUrl } = await readEnvironment(env);
      const { password, ...settings } = connectionSettings(databaseUrl as string);
      expect(settings).toEqual({
        host: "psql.postgres.database.azure.com",
        port: 5432,
        user: `id-orders-prod-${app}`,
        database: "oncebox",
        ssl: true,
      });
      expect(password).toBeTypeOf("function");
      expect(env.ONCEBOX_CATALOGUE_URL).toBe(app === "messaging" ? undefined : databaseUrl);
      expect(env.AZURE_CLIENT_ID).toBeDefined();
      expect(rightsOf(app, "PostgreSQL").join()).not.toContain("database-url");
    }
    const { users } = readDatabaseUsers(environmentOf("migrate", "PostgreSQL"));
    expect(users.map(({ role }) => role).sort()).toEqual([...rolesOfApps].sort());
    const [administrator, ...more] = all(
      "Microsoft.DBforPostgreSQL/flexibleServers/administrators",
      "PostgreSQL",
    );
    expect(more).toEqual([]);
    expect(String(administrator!.body.name)).toBe("<migrateIdentity.principalId>");
    expect(String(administrator!.body.properties.principalName)).toBe("<migrateIdentity.name>");
    expect(administrator!.body.properties.principalType).toBe("ServicePrincipal");
    const group = {
      sqlAdministratorName: "orders-admins",
      sqlAdministratorId: "00000000-0000-4000-8000-000000000009",
    };
    const { resources } = await bicepPlan({ ...required, database: "postgres", ...group });
    const administrators = resources.filter(({ type }) => type.endsWith("/administrators"));
    expect(administrators.map(({ body }) => [String(body.name), body.properties.principalType])).toEqual([
      ["<migrateIdentity.principalId>", "ServicePrincipal"],
      [group.sqlAdministratorId, "Group"],
    ]);
  });

  it("ADD-25 with databasePooler the functions connect by PgBouncer and prepare nothing, and the migration to the server itself", async () => {
    const variant = "PostgreSQL by PgBouncer";
    for (const app of functionGroups) {
      const { databaseUrl } = await readEnvironment(environmentOf(app, variant));
      const url = new URL(databaseUrl as string);
      expect([url.port, url.searchParams.get("prepare")], app).toEqual(
        app === "migrate" ? ["", null] : ["6432", "false"],
      );
      expect(isPrepared({ url: url.href })).toBe(app === "migrate");
      expect(connectionSettings(url.href)).toMatchObject({ ssl: true, user: `id-orders-prod-${app}` });
    }
    const configurations = all("Microsoft.DBforPostgreSQL/flexibleServers/configurations", variant);
    expect(configurations.map(({ body }) => [body.name, body.properties.value])).toContainEqual([
      "pgbouncer.enabled",
      "true",
    ]);
  });

  it("ADD-09 FUN-10 Azure SQL pauses only where its size can and a parameter asks for it", async () => {
    const pauseOf = async (params: Readonly<Record<string, unknown>>) => {
      const { resources } = await bicepPlan({ ...required, ...params });
      const { body } = resources.find(({ type }) => type === "Microsoft.Sql/servers/databases")!;
      return body.properties.autoPauseDelay;
    };
    expect(await pauseOf({ databaseSku: "GP_S_Gen5_1", databaseAutoPauseMinutes: 60 })).toBe(60);
    expect(await pauseOf({ databaseSku: "GP_S_Gen5_1" })).toBe(-1);
    expect(await pauseOf({ databaseAutoPauseMinutes: 60 })).toBeNull(); // S0 knows no pause
  });

  it("FUN-10 PostgreSQL is small, backed up, without passwords and with TLS only", async () => {
    const [server, ...more] = all("Microsoft.DBforPostgreSQL/flexibleServers", "PostgreSQL");
    expect(more).toEqual([]);
    expect(plan("PostgreSQL").resources.filter(({ type }) => type.startsWith("Microsoft.Sql/"))).toEqual([]);
    expect(server!.body.sku).toEqual({ name: "Standard_B2ms", tier: "Burstable" });
    expect(server!.body.properties).toMatchObject({
      authConfig: { activeDirectoryAuth: "Enabled", passwordAuth: "Disabled" },
      backup: { backupRetentionDays: 7 },
      storage: { storageSizeGB: 32 },
      network: { publicNetworkAccess: "Disabled" },
    });
    const parameters = all("Microsoft.DBforPostgreSQL/flexibleServers/configurations", "PostgreSQL");
    expect(Object.fromEntries(parameters.map(({ body }) => [body.name, body.properties.value]))).toEqual({
      require_secure_transport: "on",
      ssl_min_protocol_version: "TLSv1.2",
      log_statement: "ddl", // log_connections is on by itself, and a deployment that sets it is refused
    });
    const bigger = await bicepPlan({ ...required, database: "postgres", databaseSku: "Standard_D2ds_v5" });
    const { body } = bigger.resources.find(
      ({ type }) => type === "Microsoft.DBforPostgreSQL/flexibleServers",
    )!;
    expect(body.sku).toEqual({ name: "Standard_D2ds_v5", tier: "GeneralPurpose" });
  });

  it.each([
    ["as it is", {}],
    ["with public addresses", { privateNetworking: false }],
    ["with a pooler", { databasePooler: true }],
    ["with a pooler and public addresses", { databasePooler: true, privateNetworking: false }],
    ["with a group of administrators", { sqlAdministratorName: "admins", sqlAdministratorId: "group-id" }],
  ])(
    "FUN-10 PostgreSQL %s: each change waits for the one before, the database for its administrators",
    async (_, params) => {
      const { resources } = await bicepPlan({ ...required, database: "postgres", ...params });
      const parts = resources.filter(({ type }) =>
        type.startsWith("Microsoft.DBforPostgreSQL/flexibleServers/"),
      );
      // Azure drops the name of a resource that is not deployed from dependsOn, with all that it would have waited for.
      const early = parts
        .slice(1)
        .filter(
          ({ body }, index) => !body.dependsOn.map(String).includes(`<postgres.${parts[index]!.symbol}>`),
        );
      expect(early.map(({ symbol }) => symbol)).toEqual([]);
      const kinds = parts.map(({ type }) => type.split("/").at(-1)!);
      expect(kinds[0]).toBe("configurations"); // at once after the server no administrator is taken
      expect(kinds.at(-1)).toBe("databases");
      expect(kinds.at(-2)).toBe("administrators");
    },
  );

  it("FUN-10 without a database of its own it makes none, and the URLs are secrets: only the migration has the owner's", async () => {
    const variant = "a database of one's own";
    expect(plan(variant).resources.filter(({ type }) => /Sql|Postgre/.test(type))).toEqual([]);
    const nameOf = async (app: string) =>
      ((await readEnvironment(environmentOf(app, variant))).databaseUrl as { name: string }).name;
    expect(await nameOf("webhook")).toBe("database-url");
    expect(await nameOf("work")).toBe("database-url");
    expect(await nameOf("service")).toBe("database-url");
    expect(await nameOf("migrate")).toBe("owner-database-url");
    expect(await nameOf("admin")).toBe("admin-database-url");
    expect(await nameOf("messaging")).toBe("messaging-database-url");
    const readers = functionGroups.filter((app) =>
      rightsOf(app, variant).join().includes("owner-database-url"),
    );
    expect(readers).toEqual(["migrate"]);
    expect(rightsOf("webhook", variant)).toContain("Key Vault Secrets User on vault secret database-url");
  });
});

describe("the other resources", () => {
  const policies = () => [...plans.keys()];

  it("FUN-10 there is no password and no key, only Entra, in every variant", () => {
    for (const variant of policies()) {
      for (const { body } of all("Microsoft.Sql/servers", variant))
        expect(body.properties).toMatchObject({
          minimalTlsVersion: "1.2",
          administrators: { azureADOnlyAuthentication: true },
        });
      for (const { body } of all("Microsoft.DBforPostgreSQL/flexibleServers", variant))
        expect(body.properties.authConfig).toMatchObject({ passwordAuth: "Disabled" });
      for (const { body } of all("Microsoft.Storage/storageAccounts", variant))
        expect(body.properties).toMatchObject({
          allowSharedKeyAccess: false,
          allowBlobPublicAccess: false,
          minimumTlsVersion: "TLS1_2",
          supportsHttpsTrafficOnly: true,
        });
      for (const { body } of all("Microsoft.Insights/components", variant))
        expect(body.properties.DisableLocalAuth).toBe(true);
      for (const { body } of all("Microsoft.KeyVault/vaults", variant))
        expect(body.properties).toMatchObject({ enableRbacAuthorization: true, enableSoftDelete: true });
    }
    const forbidden = /listKeys|listSecrets|AccountKey|administratorLoginPassword/;
    for (const { name, text } of files)
      expect({ name, found: forbidden.exec(text) }).toEqual({ name, found: null });
  });

  it("FUN-10 private networking is on unless it is turned off, and then nothing but the functions has a public address", () => {
    const types = [
      "Microsoft.Sql/servers",
      "Microsoft.DBforPostgreSQL/flexibleServers",
      "Microsoft.Storage/storageAccounts",
      "Microsoft.KeyVault/vaults",
    ];
    const access = (variant?: string) =>
      new Set(
        types
          .flatMap((type) => all(type, variant))
          .map(
            ({ body: { properties } }) =>
              properties.publicNetworkAccess ?? properties.network.publicNetworkAccess,
          ),
      );
    expect(access()).toEqual(new Set(["Disabled"]));
    expect(access("PostgreSQL")).toEqual(new Set(["Disabled"]));
    expect(access("PostgreSQL with public addresses")).toEqual(new Set(["Enabled"]));
    const rules = "Microsoft.DBforPostgreSQL/flexibleServers/firewallRules";
    expect(all(rules, "PostgreSQL")).toEqual([]);
    expect(all(rules, "PostgreSQL with public addresses")).toHaveLength(1);
    expect(access("everything")).toEqual(new Set(["Disabled"]));
    expect(access("public addresses")).toEqual(new Set(["Enabled"]));
    expect(all("Microsoft.Network/privateEndpoints", "public addresses")).toEqual([]);
    expect(all("Microsoft.Sql/servers/firewallRules")).toEqual([]);
    expect(all("Microsoft.Sql/servers/firewallRules", "public addresses")).toHaveLength(1);
    for (const { body } of apps("everything"))
      expect(String(body.properties.virtualNetworkSubnetId)).toBe("<network.functionsSubnetId>");
  });

  it("FUN-10 every account, vault and server has a private endpoint, and every endpoint a zone that the network resolves", () => {
    for (const variant of ["as it is", "everything", "a database of one's own", "PostgreSQL"]) {
      const endpoints = all("Microsoft.Network/privateEndpoints", variant).map(
        ({ body }) => body.properties.privateLinkServiceConnections[0].properties,
      );
      const reached = endpoints.map(({ privateLinkServiceId }) => String(privateLinkServiceId)).sort();
      const made = [
        ...all("Microsoft.Storage/storageAccounts", variant).map(({ module, symbol }) =>
          symbol === "hostStorage" ? `<${module}.hostStorageId>` : `<${module}.id>`,
        ),
        ...all("Microsoft.KeyVault/vaults", variant).map(({ module }) => `<${module}.id>`),
        ...all("Microsoft.Sql/servers", variant).map(() => "<sqlServer.serverId>"),
        ...all("Microsoft.DBforPostgreSQL/flexibleServers", variant).map(() => "<postgres.serverId>"),
      ];
      expect(reached).toEqual(made.sort());
      const zones = all("Microsoft.Network/privateDnsZones", variant);
      expect(new Set(zones.map(({ body }) => body.name)).size).toBe(zones.length);
      expect(zones).toHaveLength(new Set(endpoints.map(({ groupIds }) => groupIds[0])).size);
      expect(all("Microsoft.Network/privateDnsZones/virtualNetworkLinks", variant)).toHaveLength(
        zones.length,
      );
      expect(all("Microsoft.Network/privateEndpoints/privateDnsZoneGroups", variant)).toHaveLength(
        endpoints.length,
      );
    }
    // Each app uses up to 40 addresses of its subnet, of which Azure keeps five.
    const [network] = all("Microsoft.Network/virtualNetworks");
    const [, bits] = /\/(\d+)$/.exec(network!.body.properties.subnets[0].properties.addressPrefix)!;
    expect(2 ** (32 - Number(bits)) - 5).toBeGreaterThanOrEqual(functionGroups.length * 40);
  });

  it("FUN-10 secrets are made disabled and with no known value, once; their later values are kept", () => {
    expect(file("key-vault.bicep").text).toMatch(/@onlyIfNotExists\(\)\nresource secrets /);
    for (const variant of policies()) {
      const secrets = all("Microsoft.KeyVault/vaults/secrets", variant);
      for (const { body } of secrets)
        expect(body.properties).toEqual({ value: "<random>", attributes: { enabled: false } });
      const granted = new Set(
        (plan(variant).modules.vault!.grants as { secret: string }[]).map(({ secret }) => secret),
      );
      expect(new Set(secrets.map(({ body }) => body.name))).toEqual(granted);
    }
  });

  it("FUN-10 a vault can be purged after a trial and recovered; in production nobody purges it", () => {
    const properties = (variant?: string) => all("Microsoft.KeyVault/vaults", variant)[0]!.body.properties;
    expect(properties()).toMatchObject({ enablePurgeProtection: null, createMode: "default" });
    expect(properties("everything").enablePurgeProtection).toBe(true);
    return bicepPlan({ ...required, recoverVault: true }).then(({ resources }) => {
      const vault = resources.find(({ type }) => type === "Microsoft.KeyVault/vaults");
      expect(vault!.body.properties.createMode).toBe("recover");
    });
  });

  it("FUN-10 SQL and vaults are audited, into logs with a retention", () => {
    const settings = all("Microsoft.Insights/diagnosticSettings", "everything");
    expect(settings.map(({ module, body }) => [module, String(body.scope), body.properties.logs[0]])).toEqual(
      [
        ["vault", "<vault.vault>", { categoryGroup: "audit", enabled: true }],
        ["tenantsVault", "<tenantsVault.vault>", { categoryGroup: "audit", enabled: true }],
        ["sqlServer", "<sqlServer.master>", { category: "SQLSecurityAuditEvents", enabled: true }],
      ],
    );
    for (const { body } of settings)
      expect(String(body.properties.workspaceId)).toBe("<monitoring.workspaceId>");
    const ofPostgres = all("Microsoft.Insights/diagnosticSettings", "PostgreSQL").find(
      ({ module }) => module === "postgres",
    );
    expect(String(ofPostgres!.body.scope)).toBe("<postgres.server>");
    expect(ofPostgres!.body.properties.logs).toEqual([{ category: "PostgreSQLLogs", enabled: true }]);
    const [auditing] = all("Microsoft.Sql/servers/auditingSettings");
    expect(auditing!.body.properties).toMatchObject({ state: "Enabled", isAzureMonitorTargetEnabled: true });
    const groups = auditing!.body.properties.auditActionsAndGroups as string[];
    expect(groups).toContain("FAILED_DATABASE_AUTHENTICATION_GROUP");
    expect(groups).not.toContain("BATCH_COMPLETED_GROUP"); // it would log payloads
    expect(all("Microsoft.OperationalInsights/workspaces")[0]!.body.properties.retentionInDays).toBe(30);
  });

  it("FUN-10 with a limit for clients only Front Door reaches the webhooks, and blocks an address above it", () => {
    expect(plan().resources.filter(({ type }) => /Cdn|FrontDoor/.test(type))).toEqual([]);
    const [policy] = all("Microsoft.Network/FrontDoorWebApplicationFirewallPolicies", "Front Door");
    expect(policy!.body.properties.policySettings.mode).toBe("Prevention");
    expect(policy!.body.properties.customRules.rules).toMatchObject([
      { ruleType: "RateLimitRule", rateLimitThreshold: 3000, rateLimitDurationInMinutes: 1, action: "Block" },
    ]);
    const [route] = all("Microsoft.Cdn/profiles/afdEndpoints/routes", "Front Door");
    expect(route!.body.properties).toMatchObject({
      patternsToMatch: ["/webhooks/*"],
      forwardingProtocol: "HttpsOnly",
    });
    const [webhook, work] = apps("Front Door").map(({ body }) => body.properties.siteConfig);
    expect(webhook).toMatchObject({
      ipSecurityRestrictionsDefaultAction: "Deny",
      ipSecurityRestrictions: [{ ipAddress: "AzureFrontDoor.Backend", tag: "ServiceTag" }],
      scmIpSecurityRestrictionsUseMain: false,
    });
    expect(String(webhook.ipSecurityRestrictions[0].headers["x-azure-fdid"][0])).toBe(
      "<frontDoorProfile.frontDoorId>",
    );
    expect(work.ipSecurityRestrictionsDefaultAction).toBe("Allow");
    expect(plan("Front Door").outputs.WEBHOOK_URL).toBe("https://<frontDoor.hostName>/webhooks/stripe");
    expect(plan().outputs.WEBHOOK_URL).toBe("https://<webhookApp.hostName>/webhooks/stripe");
  });

  it("FUN-10 every queue has one beside it for what failed too often, named as the host expects", () => {
    const queues = all("Microsoft.Storage/storageAccounts/queueServices/queues").map(({ body }) => body.name);
    const read = ["oncebox-wake-up", "oncebox-incoming"];
    const withPoison = (names: readonly string[]) => names.flatMap((name) => [name, `${name}-poison`]).sort();
    expect(queues.sort()).toEqual(withPoison(read));
    const more = all("Microsoft.Storage/storageAccounts/queueServices/queues", "with messaging");
    expect(more.map(({ body }) => body.name).sort()).toEqual(
      withPoison([...read, "oncebox-wake-up-messages"]),
    );
  });
});

describe("with messaging", () => {
  const variant = "with messaging";

  it("MSG-02 MSG-05 FUN-10 it adds a function app with all that is its own, and changes nothing else; without it there is nothing of it", () => {
    const named = (name?: string) =>
      plan(name).resources.map(({ module, symbol, body }) => `${module} ${symbol} ${body.name}`);
    const added = named(variant).filter((one) => !named().includes(one));
    expect(named().filter((one) => !named(variant).includes(one))).toEqual([]);
    const own = new Set(added.map((one) => one.split(" ")[0]));
    expect([...own].sort()).toEqual(
      ["alerts", "endpoints", "messagingApp", "messagingIdentity", "queues", "vault"].sort(),
    );
    expect(JSON.stringify(plan().resources).match(/SHOP_|-messages|messages-|[/"-]messaging/g)).toBeNull();
    expect(plan().outputs.MESSAGING_URL).toBe("");
    expect(plan(variant).outputs.MESSAGING_URL).toBe("https://<messagingApp.hostName>/_rf/receive");
  });

  it("MSG-08 FUN-10 its identity reads its two secrets and has its two queues, and no other identity has any of them", () => {
    expect(rightsOf("messaging", variant)).toEqual(
      [
        "Key Vault Secrets User on vault secret messaging-shop",
        "Key Vault Secrets User on vault secret messaging-tokens",
        "Monitoring Metrics Publisher on messagingApp applicationInsights",
        "Storage Blob Data Owner on messagingApp hostStorage",
        "Storage Blob Data Reader on messagingApp archive",
        "Storage Queue Data Contributor on queues messagePoison",
        "Storage Queue Data Contributor on queues messageWakeUps",
      ].sort(),
    );
    for (const app of ["webhook", "work", "migrate"] as const)
      expect(rightsOf(app, variant)).toEqual(rightsOf(app));
    expect(rightsOf("messaging", "a database of one's own")).toContain(
      "Key Vault Secrets User on vault secret messaging-database-url",
    );
  });

  it("MSG-02 FUN-06 FUN-10 its settings name its database, its address and its queue; the migration makes its tables", async () => {
    const env = environmentOf("messaging", variant);
    expect(env.SHOP_ADDRESS).toBe("https://shop.example/_rf/receive");
    const { messageWakeUp, wakeUp, functions, queueConnection } = readAzureSettings({
      ...env,
      ONCEBOX_MESSAGE_WAKE_QUEUE: "oncebox-wake-up-messages",
    });
    expect([...functions]).toEqual(["messaging"]);
    expect([wakeUp, queueConnection]).toEqual([undefined, "ONCEBOX_QUEUES"]);
    expect(messageWakeUp).toEqual({
      queue: "oncebox-wake-up-messages",
      storage: { queueServiceUrl: "https://stq.queue.core.windows.net/", clientId: env.AZURE_CLIENT_ID },
    });
    expect(env.ONCEBOX_MESSAGE_WAKE_QUEUE).toBe("<queues.messageWakeUpQueue>");
    expect((await readEnvironment(env)).databaseUrl).toMatch(/^Server=tcp:sql\./);
    expect(readMessaging(environmentOf("migrate", variant))).toBe(true);
    expect(readMessaging(environmentOf("migrate"))).toBe(false);
  });
});

describe("alerts", () => {
  const rulesOf = (variant?: string) =>
    all("Microsoft.Insights/scheduledQueryRules", variant).map(({ body }) => ({
      name: String(body.name).replace("orders-prod-", ""),
      window: body.properties.windowSize,
      query: String(body.properties.criteria.allOf[0].query),
      actions: body.properties.actions.actionGroups.map(String),
    }));
  const query = (name: string, variant?: string) =>
    rulesOf(variant).find((rule) => rule.name === name)!.query;
  const always = [
    "dead-letters",
    "oldest-age",
    "no-reap",
    "failures",
    "webhook-failures",
    "at-limit",
    "poison-queues",
  ];

  it("FUN-10 on dead letters, the oldest age, failures and the limit of instances read what the functions log", () => {
    expect(rulesOf().map(({ name }) => name)).toEqual(always);
    expect(query("dead-letters")).toContain('line.message == "message is dead"');
    expect(query("oldest-age")).toContain('line.message == "queue" and toint(line.oldestDueAgeMs) > 300000');
    expect(query("webhook-failures")).toContain('line.message == "webhook" and toint(line.status) >= 500');
    for (const { actions } of rulesOf()) expect(actions).toEqual(["<alerts.people.id>"]);
  });

  it("FUN-10 a message in a poison queue or a dead-letter queue raises one, and PostgreSQL has its own", () => {
    expect(query("poison-queues")).toContain('line.message == "poison queue" and toint(line.messages) > 0');
    const metrics = (variant: string) =>
      all("Microsoft.Insights/metricAlerts", variant).map(({ body }) => {
        const [{ metricName, metricNamespace, dimensions }] = body.properties.criteria.allOf;
        expect(body.properties.actions.map(({ actionGroupId }: Value) => String(actionGroupId))).toEqual([
          "<alerts.people.id>",
        ]);
        return [String(body.properties.scopes[0]), `${metricNamespace} ${metricName}`, dimensions[0]?.values];
      });
    expect(metrics("as it is")).toEqual([]);
    expect(metrics("Service Bus")).toEqual([
      ["<bus.id>", "Microsoft.ServiceBus/namespaces DeadletteredMessages", ["oncebox-incoming"]],
    ]);
    expect(metrics("PostgreSQL")).toEqual(
      ["storage_percent", "cpu_percent"].map((name) => [
        "<postgres.serverId>",
        `Microsoft.DBforPostgreSQL/flexibleServers ${name}`,
        undefined,
      ]),
    );
  });

  it("FUN-10 SVC-07 the inbox service has three of its own, the diagnostics API two", () => {
    const service = ["inbox-service-failures", "inbox-service-slow", "inbox-service-at-limit"];
    expect(rulesOf("with service").map(({ name }) => name)).toEqual([...always, ...service]);
    expect(query("inbox-service-failures", "with service")).toContain(
      'line.message == "inbox service" and toint(line.status) >= 500',
    );
    const slow = /name == "inbox-service MaxDurationMs" and value > (\d+)$/.exec(
      query("inbox-service-slow", "with service"),
    )!;
    expect(Number(slow[1])).toBeLessThan(inboxServiceDefaults.minLeaseSeconds * 1_000);
    expect(query("inbox-service-at-limit", "with service")).toContain('name == "inbox-service Count"');
    const admin = ["admin-failures", "admin-refused"];
    expect(rulesOf("with admin").map(({ name }) => name)).toEqual([...always, ...admin]);
    for (const name of admin)
      expect(query(name, "with admin")).toContain('line.message == "admin" and toint(line.status)');
  });

  it("MSG-04 MSG-15 FUN-10 those of messages read the lines that a service writes, word for word", async () => {
    const own = [
      "messages-failed",
      "messages-expired",
      "messages-refused",
      "messages-not-processed",
      "messages-at-limit",
    ];
    expect(rulesOf("with messaging").map(({ name }) => name)).toEqual([...always, ...own]);
    const sources = await Promise.all(
      ["src/messaging/reports.ts", "src/messaging/hosted-service.ts"].map(read),
    );
    const written = own.slice(0, 4).flatMap((name) => {
      const lines = [...query(name, "with messaging").matchAll(/"((?:Inbox|Outbox): [^"]+)"/g)];
      expect(lines.length, name).toBeGreaterThan(0);
      return lines.map(([, line]) => line!);
    });
    expect(written.filter((line) => !sources.join().includes(`"${line}"`))).toEqual([]);
    expect(written).toEqual(
      expect.arrayContaining(["Outbox: message permanently failed", "Outbox: message expired"]),
    );
    expect(query("messages-at-limit", "with messaging")).toContain('name == "receiveMessages Count"');
  });

  it("FUN-04 FUN-10 the windows hold three runs of reap for each reapMinutes, and Azure accepts them", async () => {
    const [, allowed] = /@allowed\(\[([\d, ]+)\]\)\nparam reapMinutes int = 1\n/.exec(
      file("main.bicep").text,
    )!;
    const minutes: Record<string, number> = { PT5M: 5, PT15M: 15, PT30M: 30, PT45M: 45, PT1H: 60, PT2H: 120 };
    for (const every of allowed!.split(", ").map(Number)) {
      const { resources } = await bicepPlan({ ...required, reapMinutes: every });
      const windows = resources
        .filter(({ body }) => /-(oldest-age|no-reap|poison-queues)$/.test(String(body.name)))
        .map(({ body }) => minutes[body.properties.windowSize]!);
      expect(windows).toHaveLength(3);
      for (const window of windows) expect(window / every).toBeGreaterThanOrEqual(3);
    }
  });

  it("FUN-10 host.json sends what alerts read, drops none of it, and sends nothing for a message that went well", async () => {
    const { logging } = JSON.parse(await read("host.json"));
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
});

describe("the types that Microsoft publishes", () => {
  let types: AzureTypes["types"];
  let bodies: ReadonlyMap<string, readonly Value[]>;
  beforeAll(async () => {
    ({ types } = JSON.parse(
      await readFile(new URL("azure-types.json", import.meta.url), "utf8"),
    ) as AzureTypes);
    bodies = await plannedBodies();
  });

  it("FUN-10 every resource of every deployment has the properties of its API version and no others", () => {
    expect([...bodies.keys()].sort()).toEqual(Object.keys(types));
    expect(bodies.size).toBeGreaterThan(38);
    for (const [name, all] of bodies)
      expect([name, ...new Set(all.flatMap((body) => problemsOfResource(body, types[name]!)))]).toEqual([
        name,
      ]);
  });

  it("FUN-10 a misspelled property, a wrong value, a missing one and one that Azure writes are found", () => {
    const name = "Microsoft.DBforPostgreSQL/flexibleServers@2024-08-01";
    const [server] = bodies.get(name)!;
    const wrong = (change: object) =>
      problemsOfResource({ ...server, properties: { ...server.properties, ...change } }, types[name]!);
    expect(wrong({})).toEqual([]);
    expect(wrong({ versoin: "17" })).toEqual(["properties.versoin is not a property"]);
    expect(wrong({ version: 17 })).toEqual(["properties.version must be a text"]);
    expect(wrong({ network: "private" })).toEqual(["properties.network must be an object"]);
    expect(wrong({ state: "Ready" })).toEqual(["properties.state is written by Azure alone"]);
    expect(wrong({ maintenanceWindow: {} })).toEqual([
      "properties.maintenanceWindow is new here: run npm run check:bicep",
    ]);
    const { location: _, ...nowhere } = server;
    expect(problemsOfResource(nowhere, types[name]!)).toEqual([".location is missing"]);
  });
});
