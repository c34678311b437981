import { randomUUID } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import pg from "pg";
import { describe, expect, inject, it } from "vitest";
import { catalogueTable, tenantsFromCatalogue } from "../../src/app/tenants.js";
import { silentLogger } from "../../src/base/logger.js";
import { openSqlServer } from "../../src/sql/sqlserver/index.js";
import { root } from "../support/markdown.js";
import { ownDatabase } from "./own-database.js";

const sqlServerUrl = inject("sqlServerUrl");
const script = () => readFile(join(root, "infra/sql/catalogue.sql"), "utf8");

/** As a function does it: all it knows is where the URL is kept. */
const discovered = (url: string, table = "tenants") =>
  tenantsFromCatalogue({
    database: { from: "aws-secrets-manager", id: "orders/prod/catalogue-url" },
    table,
  })({
    signal: new AbortController().signal,
    logger: silentLogger,
    resolveSecret: async () => url,
  });

const samples = [
  expect.objectContaining({ id: "acme", database: expect.stringMatching(/^postgres:/), schema: undefined }),
  expect.objectContaining({ id: "globex", schema: "globex" }),
  expect.objectContaining({
    id: "initech",
    database: expect.stringContaining("Active Directory Integrated"),
  }),
];

describe("the catalogue of tenants", () => {
  it("FUN-08 FUN-10 its script makes the table that the package describes", async () => {
    expect(await script()).toContain(`${catalogueTable()};`);
  });

  it("FUN-08 FUN-10 discovery finds its samples on PostgreSQL", async () => {
    const database = await ownDatabase();
    const client = new pg.Client({ connectionString: database.url });
    try {
      await client.connect();
      await client.query(await script());
      expect(await discovered(database.url)).toEqual(samples);
    } finally {
      await client.end();
      await database.drop();
    }
  });

  it.skipIf(sqlServerUrl === "")("FUN-08 FUN-10 discovery finds its samples on SQL Server", async () => {
    const table = `tenants_${randomUUID().slice(0, 8)}`; // the database is not this test's own
    const db = openSqlServer({ url: sqlServerUrl, maxConnections: 1 });
    const run = (sql: string) => db.driver.query({ name: "script", text: sql, unprepared: true }, {});
    try {
      await run((await script()).replaceAll('"tenants"', `"${table}"`));
      expect(await discovered(sqlServerUrl, table)).toEqual(samples);
    } finally {
      await run(`drop table if exists ${table}`);
      await db.close();
    }
  });

  it("FUN-08 FUN-10 discovery finds its samples on SQLite", async () => {
    const folder = await mkdtemp(join(tmpdir(), "oncebox-catalogue-"));
    try {
      const file = join(folder, "catalogue.db");
      const db = new DatabaseSync(file);
      db.exec(await script());
      db.close();
      expect(await discovered(`sqlite:${file}`)).toEqual(samples);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it("FUN-08 FUN-10 both templates say where it is", async () => {
    const aws = await readFile(join(root, "serverless.yml"), "utf8");
    expect(aws).toMatch(/^ {4}CATALOGUE_SECRET: .*catalogue-url/m);
    const azure = await readFile(join(root, "infra/azure/main.bicep"), "utf8");
    for (const app of ["webhook", "work", "migrate", "service", "admin"])
      expect(azure).toContain(`ONCEBOX_CATALOGUE_URL: ${app}Url`);
    expect(azure).toContain("TENANTS_VAULT_URL: tenantsVault!.outputs.url");
  });
});
