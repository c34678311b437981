import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import pg from "pg";
import { describe, expect, it } from "vitest";
import { silentLogger } from "../../src/queue/logger.js";
import { catalogueTable, tenantsFromCatalogue } from "../../src/tenants/index.js";
import { root } from "./aws-stack.js";
import { ownDatabase } from "./own-database.js";

const script = () => readFile(join(root, "infra/sql/catalogue.sql"), "utf8");

/** As a function does it: all it knows is where the URL is kept. */
const discovered = (url: string) =>
  tenantsFromCatalogue({ database: { from: "aws-secrets-manager", id: "oncebox/prod/catalogue-url" } })({
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
    const azure = await readFile(join(root, "infra/azure/functions.bicep"), "utf8");
    expect(azure).toContain("KEY_VAULT_URL: vaultUrl");
  });
});
