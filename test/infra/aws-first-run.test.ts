import { createHash, createHmac, randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { APIGatewayProxyStructuredResultV2 } from "aws-lambda";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from "vitest";
import type { MigrateReport } from "../../src/adapters/aws/index.js";
import {
  functionsUsers,
  grantFunctionsUser,
  newPassword,
  scramVerifier,
} from "../../src/adapters/aws/migrate-function.js";
import { urlOfUser } from "../../src/config/aws-settings.js";
import { databaseRoles } from "../../src/config/database-users.js";
import { createInbox, migrate } from "../../src/index.js";
import { openSqlServer } from "../../src/sql/sqlserver/index.js";
import { isBabelfish } from "../contract/support/database.js";
import { type BundleFolder, bundleTestApp } from "../runtime/aws/bundle-folder.js";
import { startHttpApi } from "../runtime/aws/http-api.js";
import { answerOf, stripeHttpEvent, webhookSecret } from "../runtime/aws/http-events.js";
import { type LambdaFunction, lambdaFunction } from "../runtime/aws/lambda-function.js";
import { type StoredSecret, startSecretsManager } from "../runtime/tenants/secrets-manager-server.js";
import { withFunctionRights } from "../support/babelfish-schema.js";
import { dropLogin } from "../support/drop-login.js";
import { root } from "../support/markdown.js";
import { patient, sqlServerHarness } from "../support/sqlserver-harness.js";
import { type StartedServer, startPostgres } from "../support/start-postgres.js";
import { operatorToken, shopSecret, startShop } from "./messaging-walk.js";
import { type OwnDatabase, ownDatabase } from "./own-database.js";

const sqlServerUrl = inject("sqlServerUrl");

describe("functions of the AWS stack in an empty account", () => {
  const secrets = new Map<string, StoredSecret>();
  const running: LambdaFunction[] = [];
  let store: Awaited<ReturnType<typeof startSecretsManager>>;
  /** Only for this file: roles belong to the whole server, and other tests create roles of the same names. */
  let server: StartedServer;
  let database: OwnDatabase;
  let bundles: BundleFolder;

  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  beforeEach(async () => {
    secrets.clear();
    store = await startSecretsManager(secrets);
    database = await ownDatabase(server.url);
  });
  afterEach(async () => {
    await Promise.all(running.splice(0).map((one) => one.close()));
    await store.stop();
    await bundles?.remove();
    await database.drop();
  });

  const start = (name: string, env: Readonly<Record<string, string>>): LambdaFunction => {
    const made = lambdaFunction({
      folder: bundles.folder,
      handler: `${name}.handler`,
      env: { AWS_ENDPOINT_URL_SECRETS_MANAGER: store.url, ...env },
    });
    running.push(made);
    return made;
  };

  it("FUN-10 migrate creates tables, user and URL as the database's owner; then a webhook is enqueued, without any SQL by hand", async () => {
    const owner = `owner_${randomUUID().slice(0, 8)}`;
    const password = "p@ss/w%3Ard#?&+ 1"; // as RDS makes them: not to be put into a URL as they are
    await database.run(`create role ${owner} login createrole password '${password}'`);
    await database.run(`grant create on database ${database.name} to ${owner}`);
    bundles = await bundleTestApp("postgres", ["@aws-sdk"], join(root, "functions/app.ts"));
    secrets.set("orders/dev/database-url", {}); // as the stack leaves it
    secrets.set("rds!db-1", { text: JSON.stringify({ username: owner, password }) });
    const withoutUser = new URL(database.url);
    withoutUser.username = "";
    withoutUser.password = "";
    const env = {
      ONCEBOX_DATABASE_URL: '{"from":"aws-secrets-manager","id":"orders/dev/database-url"}',
      STRIPE_WEBHOOK_SECRET: webhookSecret,
    };
    const ownerEnv = { ONCEBOX_OWNER_URL: withoutUser.href, ONCEBOX_OWNER_SECRET: "rds!db-1" };
    try {
      const migrating = start("migrate", { ...env, ...ownerEnv });
      const first = await migrating.invoke<MigrateReport>({});
      expect(first.applied.length).toBeGreaterThan(1);
      expect(first.madeUser).toBe(true);
      const url = new URL(secrets.get("orders/dev/database-url")!.text!);
      expect([url.username, url.pathname]).toEqual([functionsUsers.postgres, `/${database.name}`]);
      const webhook = start("webhook", env);
      const answer = await webhook.invoke<APIGatewayProxyStructuredResultV2>(
        stripeHttpEvent({ id: "evt_1" }),
      );
      expect(answerOf(answer)).toEqual({ status: 200, outcome: "enqueued" });
      // At each later deployment: what is new is granted, and the password stays.
      expect(await migrating.invoke({})).toMatchObject({ applied: [], madeUser: false });
      expect(secrets.get("orders/dev/database-url")!.text).toBe(url.href);
      expect(migrating.logs()).not.toContain(url.password);
      expect(migrating.logs()).not.toContain(password);
      const [role] = await database.run(
        `select rolsuper, rolcreaterole from pg_roles where rolname = '${functionsUsers.postgres}'`,
      );
      expect(role).toEqual({ rolsuper: false, rolcreaterole: false });
    } finally {
      for (const role of [...databaseRoles, owner]) {
        await database.run(`drop owned by ${role} cascade`).catch(() => {});
        await database.run(`drop role if exists ${role}`);
      }
    }
  });

  it("MSG-01 MSG-02 MSG-05 MSG-14 FUN-10 with messaging, migrate makes the tables of the service; then its functions exchange messages as the functions' user, with secrets of Secrets Manager", async () => {
    const owner = `owner_${randomUUID().slice(0, 8)}`;
    await database.run(`create role ${owner} login createrole password 'secret'`);
    await database.run(`grant create on database ${database.name} to ${owner}`);
    bundles = await bundleTestApp("postgres", ["@aws-sdk"], join(root, "functions/app.ts"), {
      messaging: true,
    });
    const shop = await startShop();
    secrets.set("orders/dev/database-url", {}); // as the stack leaves it
    secrets.set("rds!db-1", { text: JSON.stringify({ username: owner, password: "secret" }) });
    secrets.set("orders/dev/messaging/shop", { text: `${shopSecret}\n` });
    secrets.set("orders/dev/messaging-tokens", { text: `bob:another-token-12345678\n${operatorToken}\n` });
    const reference = (id: string) => JSON.stringify({ from: "aws-secrets-manager", id });
    const env = { ONCEBOX_DATABASE_URL: reference("orders/dev/database-url") };
    const migrating = start("migrate", {
      ...env,
      ONCEBOX_OWNER_URL: database.url.replace("postgres@", ""),
      ONCEBOX_OWNER_SECRET: "rds!db-1",
      ONCEBOX_MESSAGING: "true", // as in infra/aws/migrate-true.yml
    });
    const messageEnv = {
      ...env,
      SHOP_ADDRESS: shop.address,
      SHOP_SECRET: reference("orders/dev/messaging/shop"),
    };
    try {
      const { applied } = await migrating.invoke<MigrateReport>({});
      expect(applied.map((text) => text.split(" ")[0])).toEqual([
        "inbox",
        "outbox",
        "messages_inbox",
        "messages_outbox",
      ]);
      expect(await migrating.invoke({})).toMatchObject({ applied: [] });
      const functions = {
        receive: start("message-receive", {
          ...messageEnv,
          MESSAGING_TOKENS: reference("orders/dev/messaging-tokens"),
        }),
        dispatch: start("message-dispatch", messageEnv),
        maintain: start("message-maintain", messageEnv),
      };
      const api = await startHttpApi(functions.receive);
      await shop
        .walk({
          address: `${api.url}/_rf/receive`,
          run: (name) => functions[name].invoke({ source: "aws.events" }),
          logs: () =>
            Object.values(functions)
              .map((one) => one.logs())
              .join("\n"),
        })
        .finally(() => api.close());
    } finally {
      await shop.stop();
      for (const role of [...databaseRoles, owner]) {
        await database.run(`drop owned by ${role} cascade`).catch(() => {});
        await database.run(`drop role if exists ${role}`);
      }
    }
  });

  it("FUN-08 FUN-10 migrate makes the catalogue, and migrates every tenant's database as its owner; then a tenant's webhook is stored", async () => {
    const app = fileURLToPath(new URL("aws-tenant-app.ts", import.meta.url));
    bundles = await bundleTestApp("postgres", ["@aws-sdk"], app);
    const owner = `owner_${randomUUID().slice(0, 8)}`;
    const tenantDatabases = [await ownDatabase(server.url), await ownDatabase(server.url)];
    await database.run(`create role ${owner} login createrole password 'secret'`);
    for (const { name, run } of [database, ...tenantDatabases]) {
      await database.run(`grant create on database ${name} to ${owner}`);
      await run(`grant create on schema public to ${owner}`);
    }
    secrets.set("orders/dev/database-url", {}); // as the stack leaves them
    secrets.set("orders/dev/catalogue-url", {});
    secrets.set("rds!db-1", { text: JSON.stringify({ username: owner, password: "secret" }) });
    const withoutUser = (url: string) => url.replace("postgres@", "");
    const env = {
      ONCEBOX_DATABASE_URL: '{"from":"aws-secrets-manager","id":"orders/dev/database-url"}',
      CATALOGUE_SECRET: "orders/dev/catalogue-url",
      STRIPE_WEBHOOK_SECRET: webhookSecret,
    };
    try {
      const migrating = start("migrate", {
        ...env,
        ONCEBOX_OWNER_URL: withoutUser(database.url),
        ONCEBOX_OWNER_SECRET: "rds!db-1",
        ONCEBOX_CATALOGUE_SECRET: "orders/dev/catalogue-url", // as in infra/aws/migrate-true.yml
      });
      expect(await migrating.invoke({})).toMatchObject({ madeUser: true, madeCatalogue: true });
      const functionsUrl = secrets.get("orders/dev/database-url")!.text!;
      expect(secrets.get("orders/dev/catalogue-url")!.text).toBe(functionsUrl);
      for (const [index, { url }] of tenantDatabases.entries()) {
        const target = new URL(url);
        [target.username, target.password] = [new URL(functionsUrl).username, new URL(functionsUrl).password];
        await database.run(`insert into tenants (id, database_url) values ('t${index}', '${target.href}')`);
      }
      const second = await migrating.invoke<MigrateReport>({});
      expect(second).toMatchObject({ madeUser: false, madeCatalogue: false });
      expect(second.applied.map((text) => text.split(" ")[0])).toEqual(["t0:", "t0:", "t1:", "t1:"]);
      for (const { run } of tenantDatabases) {
        const [table] = await run("select tableowner from pg_tables where tablename = 'inbox_messages'");
        expect(table).toEqual({ tableowner: owner });
        await run(
          "insert into infra.inbox_messages (source, message_id, topic, payload, first_seen_at, last_seen_at) select 's', 'm', 'order.placed', '{}', now(), now()",
        );
        await run(
          "insert into infra.inbox_state (seq, status, visible_at) select seq, 1, now() from infra.inbox_messages",
        );
      }
      // As the functions' user, which the migration gave its rights in each of them.
      expect(await start("dispatch", env).invoke({})).toMatchObject({ inbox: { acked: 2 } });
      expect(await migrating.invoke({})).toMatchObject({ applied: [] });
    } finally {
      for (const one of tenantDatabases) await one.drop();
      for (const role of [...databaseRoles, owner]) {
        await database.run(`drop owned by ${role} cascade`).catch(() => {});
        await database.run(`drop role if exists ${role}`);
      }
    }
  });

  it.each([
    ["secrets", "ListSecrets"],
    ["catalogue", "GetSecretValue"],
  ])(
    "FUN-07 FUN-08 FUN-10 a packaged dispatcher finds its tenants in the %s, and handles their messages",
    async (place, call) => {
      const app = fileURLToPath(new URL("aws-tenant-app.ts", import.meta.url));
      bundles = await bundleTestApp("postgres", ["@aws-sdk"], app);
      await migrate(database.db);
      await createInbox(database.db).receive({
        source: "shop",
        messageId: "m1",
        topic: "order.placed",
        payload: "{}",
      });
      if (place === "secrets") {
        secrets.set("orders/dev/tenants/acme", { text: database.url });
        secrets.set("orders/dev/database-url", { text: "postgres://nobody@127.0.0.1:1/other" });
      } else {
        const [table = ""] = (await readFile(join(root, "infra/sql/catalogue.sql"), "utf8")).match(
          /create table[^;]*;/,
        )!;
        await database.run(table);
        await database.run(`insert into tenants (id, database_url) values ('acme', '${database.url}')`);
        secrets.set("orders/dev/catalogue-url", { text: database.url });
      }
      const dispatch = start("dispatch", {
        TENANTS_ARE_IN: place,
        TENANTS_PREFIX: "orders/dev/tenants/", // both as in serverless.yml
        CATALOGUE_SECRET: "orders/dev/catalogue-url",
      });
      expect(await dispatch.invoke({})).toMatchObject({ inbox: { acked: 1 } });
      expect(dispatch.logs()).toContain("handled m1");
      expect(store.calls).toContain(call);
    },
  );
});

describe.skipIf(sqlServerUrl === "")("the functions' user on SQL Server, as migrate makes it", () => {
  it("FUN-10 signs in with its password, before and after another run", async () => {
    const functionsUser = functionsUsers.sqlserver;
    const admin = await sqlServerHarness(sqlServerUrl).open();
    try {
      await migrate(admin.db, { schema: admin.schema! });
      // Roles belong to the database, which other tests use too.
      const users = await readFile(join(root, "infra/sql/users-sqlserver.sql"), "utf8");
      const script = ((await isBabelfish(admin)) ? withFunctionRights(users) : users).replaceAll(
        /oncebox_(?=receivers|service|producers|messaging|operators)/g,
        `${admin.schema}_`,
      );
      const tables = { schema: admin.schema! };
      for (const password of [newPassword(), undefined, newPassword()]) {
        await grantFunctionsUser(admin.db, { kind: "sqlserver", tables, script, password });
        if (password === undefined) continue;
        const own = openSqlServer({
          url: urlOfUser(sqlServerUrl, functionsUser, password),
          maxConnections: 1,
          config: patient,
        });
        const text = "select suser_name() as who, is_rolemember('oncebox_functions') as member";
        const signedIn = await own.driver
          .query({ name: "who", text, unprepared: true }, {})
          .finally(() => own.close());
        expect(signedIn).toEqual([{ who: functionsUser, member: 1 }]);
      }
    } finally {
      await admin.close();
      const roles = ["receivers", "service", "producers", "messaging", "operators"].map(
        (name) => `${admin.schema}_${name}`,
      );
      const drops = [...roles, "oncebox_functions"].map((role) => `drop role if exists [${role}]`);
      await dropLogin(sqlServerUrl, functionsUser, drops);
    }
  }, 300_000);
});

describe("the password that PostgreSQL is given", () => {
  it("FUN-10 is a verifier, as RFC 7677 calculates it", () => {
    const nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const salt = "W22ZaJ0SNY7soEsUEjb6gQ==";
    const exchange = `n=user,r=rOprNGfwEbeRWgbNEkqO,r=${nonce},s=${salt},i=4096,c=biws,r=${nonce}`;
    const verifier = scramVerifier("pencil", Buffer.from(salt, "base64"), 4_096);
    const [, stored, server] = /^SCRAM-SHA-256\$4096:[^$]+\$([^:]+):(.+)$/.exec(verifier)!.map(String);
    const signature = (key: string) =>
      createHmac("sha256", Buffer.from(key, "base64")).update(exchange).digest();
    expect(signature(server!).toString("base64")).toBe("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    const proof = Buffer.from("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", "base64");
    const clientKey = signature(stored!).map((byte, index) => byte ^ proof[index]!);
    expect(createHash("sha256").update(clientKey).digest("base64")).toBe(stored);
  });
});
