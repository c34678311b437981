import { spawnSync } from "node:child_process";
import { chmod, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { QueueServiceClient } from "@azure/storage-queue";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { azureFolder } from "../../scripts/bicep-files.js";
import type { MigrateResult } from "../../src/index.js";
import { packageFunctions } from "../../src/packaging/package-functions.js";
import { startAzurite } from "../runtime/azure/azurite.js";
import { type FunctionsHost, startFunctionsHost } from "../runtime/azure/functions-host.js";
import { localTls } from "../runtime/azure/local-tls.js";
import { type ManagedIdentity, startManagedIdentity } from "../runtime/azure/managed-identity.js";
import { stripeWebhook } from "../runtime/scenarios.js";
import { startVault, type VaultSecret } from "../runtime/tenants/key-vault-list-server.js";
import { cli } from "../support/cli.js";
import { startPostgres } from "../support/start-postgres.js";
import { root, runPackage } from "./aws-stack.js";
import { operatorToken, shopSecret, startShop } from "./messaging-walk.js";
import { ownDatabase } from "./own-database.js";
import { unpacked } from "./packed.js";

const hasBicep = spawnSync("bicep", ["--version"]).status === 0;

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

  const migrated = async ({ url }: FunctionsHost): Promise<MigrateResult> => {
    const answer = await fetch(`${url}/migrate`, { method: "POST" });
    const body = await answer.json();
    expect(answer.status, JSON.stringify(body)).toBe(200);
    return body as MigrateResult;
  };
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
    const migrating = await startFunctionsHost(
      folder,
      { ONCEBOX_FUNCTIONS: "migrate", ONCEBOX_DATABASE_URL: database.url },
      60_000,
    );
    closing.push(migrating.stop);
    expect(Object.keys(migrating.functions)).toEqual(["migrate"]);
    expect(migrating.functions.migrate).toMatchObject({ authLevel: "function", methods: ["POST"] });
    expect(await migrated(migrating)).toMatchObject({
      applied: [expect.stringMatching(/^inbox 1/), expect.stringMatching(/^outbox 1/)],
    });
    expect(await migrated(migrating)).toMatchObject({ applied: [] }); // every deployment calls it
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
    await expect.poll(messages).toContain("sending the receipt of evt_1");

    const queues = QueueServiceClient.fromConnectionString(azurite.connectionString, {
      tlsOptions: { ca: localTls.read().cert },
    } as object); // an option of its HTTP pipeline that the type does not name
    const incoming = queues.getQueueClient("oncebox-incoming");
    await incoming.createIfNotExists();
    const { messageId } = await incoming.sendMessage(Buffer.from('{"order":1}').toString("base64"));
    await expect.poll(messages).toContain('consume took {"order":1}');
    await expect.poll(messages).toContain(`sending the receipt of ${messageId}`);
    expect(await host.run("dispatch")).toMatchObject({ more: false });
    expect(await host.run("reap")).toMatchObject({ inbox: { done: 0 }, outbox: { done: 0 } });
    expect(messages()).toContainEqual(
      expect.stringMatching(/^\{.*"message":"queue","queue":"inbox","oldestDueAgeMs":0\}$/),
    );
    expect(await host.run("cleanup")).toMatchObject({ inbox: { done: 0 }, outbox: { done: 0 } });

    // Only reap reports a message that the host has given up. The alert reads this line.
    expect(messages().filter((line) => line.includes("poison"))).toEqual([]);
    const poison = queues.getQueueClient("oncebox-incoming-poison");
    await poison.createIfNotExists();
    await poison.sendMessage("bm90aGluZw==");
    await host.run("reap");
    expect(messages()).toContainEqual(
      expect.stringMatching(
        /"level":"warn".*"message":"poison queue","queue":"oncebox-incoming-poison","messages":1\}$/,
      ),
    );
  });

  it("FUN-10 FUN-12 on PostgreSQL the packaged functions sign in with tokens of their identities, from the migration to the handler", async () => {
    const rules = join(out, "pg_hba.conf");
    await writeFile(rules, "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 password\n");
    await chmod(out, 0o755); // the server runs as another user
    const server = await startPostgres([`hba_file=${rules}`]);
    closing.push(server.stop);
    const database = await ownDatabase(server.url);
    closing.push(database.drop);
    const identities: ManagedIdentity[] = [];
    const app = async (group: string) => {
      const target = new URL(database.url);
      target.username = `id-orders-prod-${group}`;
      target.search = "authentication=entra&sslmode=disable";
      const identity = await startManagedIdentity();
      closing.push(identity.stop);
      identities.push(identity);
      await database.run(`alter role "${target.username}" login password '${identity.token}'`);
      const env = {
        ...identity.env,
        ONCEBOX_FUNCTIONS: group,
        ONCEBOX_DATABASE_URL: target.href,
        STRIPE_WEBHOOK_SECRET: "whsec_scenarios_secret_of_tests",
      };
      const host = await startFunctionsHost(join(out, "postgres", "app"), env, 60_000);
      closing.push(host.stop);
      return host;
    };
    await database.run(`create role "id-orders-prod-migrate" createrole`);
    await database.run(`grant create on database ${database.name} to "id-orders-prod-migrate"`);
    expect((await migrated(await app("migrate"))).applied).toHaveLength(2);
    // The migration does this on Azure, with labels that only Azure knows: test/infra/postgres-roles.test.ts.
    await database.run(`create role "id-orders-prod-webhook" in role oncebox_receivers`);
    await database.run(`create role "id-orders-prod-work" in role oncebox_functions`);
    const [webhook, work] = [await app("webhook"), await app("work")];
    expect((await webhook.webhook(stripeWebhook("evt_entra"))).status).toBe(200);
    expect(await work.run("dispatch")).toMatchObject({ inbox: { acked: 1 }, outbox: { acked: 1 } });
    for (const { resources } of identities)
      expect(new Set(resources)).toEqual(new Set(["https://ossrdbms-aad.database.windows.net"]));
    expect(JSON.stringify([webhook.lines(), work.lines()])).not.toContain("eyJ");
  });

  it("MSG-01 MSG-02 MSG-05 MSG-14 FUN-06 FUN-10 with messaging, the migration makes the tables of the service; then its function app exchanges messages as its own database user, with secrets of the vault", async () => {
    const project = join(out, "with-messaging");
    const made = await cli("init", "azure", project, "--messaging", "--database", "postgres");
    expect(made).toMatchObject({ code: 0 });
    await symlink(join(root, "node_modules"), join(project, "node_modules"), "junction");
    await packageFunctions({
      cloud: "azure",
      database: "postgres",
      folder: project,
      outFolder: join(project, "build/azure"),
    });
    const folder = await unpacked(join(project, "build/azure/app.zip"));
    folders.push(folder);

    const [server, azurite, identity, shop] = await Promise.all([
      startPostgres(), // roles belong to the whole server
      startAzurite(),
      startManagedIdentity(),
      startShop(),
    ]);
    closing.push(server.stop, azurite.stop, identity.stop, shop.stop);
    const database = await ownDatabase(server.url);
    closing.push(database.drop);
    const secrets = new Map<string, VaultSecret>([
      ["messaging-shop", { text: shopSecret }],
      ["messaging-tokens", { text: operatorToken }],
    ]);
    const vault = await startVault(secrets);
    closing.push(vault.stop);
    const start = async (env: Readonly<Record<string, string>>) => {
      const host = await startFunctionsHost(folder, { ...localTls.env, ...identity.env, ...env }, 60_000);
      closing.push(host.stop);
      return host;
    };
    const migrating = await start({
      ONCEBOX_FUNCTIONS: "migrate",
      ONCEBOX_DATABASE_URL: database.url,
      ONCEBOX_MESSAGING: "True", // as Bicep writes it
    });
    expect((await migrated(migrating)).applied).toHaveLength(4);
    await database.run(`create role "id-orders-prod-messaging" login in role oncebox_messaging`);
    const reference = (name: string) => JSON.stringify({ from: "azure-key-vault", vault: vault.url, name });
    const url = new URL(database.url);
    url.username = "id-orders-prod-messaging";
    const env = {
      ONCEBOX_FUNCTIONS: "messaging",
      ONCEBOX_DATABASE_URL: url.href,
      ONCEBOX_MESSAGE_WAKE_QUEUE: "oncebox-wake-up-messages",
      ONCEBOX_QUEUES: azurite.connectionString,
      SHOP_ADDRESS: shop.address,
      SHOP_SECRET: reference("messaging-shop"),
      MESSAGING_TOKENS: reference("messaging-tokens"),
    };
    const { functions } = await start(env);
    expect(Object.keys(functions).sort()).toEqual([
      "diagnoseMessages",
      "dispatchMessages",
      "maintainMessages",
      "receiveMessages",
      "wakeUpMessages",
    ]);
    expect(functions.wakeUpMessages).toMatchObject({
      queueName: "oncebox-wake-up-messages",
      connection: "ONCEBOX_QUEUES", // the host's own account has no queues
    });
    // Without the wake-up, so that the walk itself dispatches.
    const { ONCEBOX_MESSAGE_WAKE_QUEUE: _, ...byTimer } = env;
    const host = await start(byTimer);
    await shop.walk({
      address: `${host.url}/_rf/receive`,
      run: (name) => host.run(`${name}Messages`),
      logs: () => JSON.stringify(host.lines()),
    });
    expect(vault.paths).toEqual(
      expect.arrayContaining(["/secrets/messaging-shop/", "/secrets/messaging-tokens/"]),
    );
    const others = await start({ ONCEBOX_FUNCTIONS: "webhook", ONCEBOX_DATABASE_URL: database.url });
    expect(Object.keys(others.functions)).toEqual(["webhook"]);
  });

  it("FUN-10 each group of functions is an app of its own, and one of Service Bus waits for its queue", async () => {
    const folder = join(out, "postgres", "app");
    const functionsOf = async (group: string) => {
      const host = await startFunctionsHost(
        folder,
        {
          ONCEBOX_FUNCTIONS: group,
          ONCEBOX_DATABASE_URL: "postgres://nobody@127.0.0.1:1/none",
          ONCEBOX_CONSUME_BUS_QUEUE: "oncebox-incoming",
        },
        60_000,
      );
      await host.stop();
      return host.functions;
    };
    const [webhook, work] = await Promise.all([functionsOf("webhook"), functionsOf("work")]);
    expect(Object.keys(webhook)).toEqual(["webhook"]);
    expect(Object.keys(work).sort()).toEqual(["cleanup", "consume-bus", "dispatch", "reap"]);
    expect(work["consume-bus"]).toMatchObject({
      type: "serviceBusTrigger",
      queueName: "oncebox-incoming",
      connection: "ONCEBOX_BUS",
    });
  });

  it("FUN-08 FUN-10 the packaged functions find their tenants in the catalogue, which the migration makes, and in a vault", async () => {
    const [folder, database, identity] = await Promise.all([
      archived("tenants", "--database", "postgres", "--app", join(root, "test/infra/tenants-app/app.ts")),
      ownDatabase(),
      startManagedIdentity(),
    ]);
    closing.push(database.drop, identity.stop);
    const secrets = new Map<string, VaultSecret>();
    const vault = await startVault(secrets);
    closing.push(vault.stop);
    const start = async (group: string, env: Readonly<Record<string, string>>) => {
      const secret = { STRIPE_WEBHOOK_SECRET: "whsec_scenarios_secret_of_tests" };
      const host = await startFunctionsHost(folder, { ONCEBOX_FUNCTIONS: group, ...secret, ...env }, 60_000);
      closing.push(host.stop);
      return host;
    };
    const received = async (host: FunctionsHost, tenant: string) => {
      const url = `${host.url}/webhooks/stripe/${tenant}`;
      return (await fetch(new Request(url, stripeWebhook(`evt_${tenant}`)))).status;
    };
    const handles = async (env: Readonly<Record<string, string>>, tenant: string) => {
      const host = await start("webhook,work", env);
      expect(await received(host, tenant)).toBe(200);
      expect(await received(host, "nobody")).not.toBe(200);
      await host.run("dispatch");
      expect(host.lines().map(({ message }) => message)).toContain(`${tenant} handled evt_${tenant}`);
    };

    const catalogue = { ONCEBOX_CATALOGUE_URL: database.url };
    const migrating = await start("migrate", catalogue);
    expect(await migrated(migrating)).toEqual({ applied: [], warnings: [] }); // the catalogue is made, and has no tenant
    await database.run(
      `insert into tenants (id, database_url, schema_name) values ('acme', '${database.url}', 'acme')`,
    );
    expect((await migrated(migrating)).applied).toEqual([
      expect.stringMatching(/^acme: inbox 1/),
      expect.stringMatching(/^acme: outbox 1/),
    ]);
    await handles(catalogue, "acme");

    secrets.set("tenant-globex", { text: JSON.stringify({ url: database.url, schema: "acme" }) });
    await handles({ TENANTS_VAULT_URL: vault.url, ...identity.env, ...localTls.env }, "globex");
    expect(vault.paths).toContain("/secrets/tenant-globex/");
  });

  it("FUN-10 the archive for Azure SQL starts, and answers webhooks with 503 while the database is away", async () => {
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
