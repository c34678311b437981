import { describe, expect, it } from "vitest";
import { openDatabase } from "../../../src/config/database-url.js";
import { readEnvironment } from "../../../src/config/environment.js";
import { secretsFromEnvironment } from "../../../src/config/secret-reference.js";
import { InvalidArgumentError, InvalidOperationError } from "../../../src/errors.js";

describe("the environment", () => {
  it("FUN-11 has defaults for everything", async () => {
    expect(await readEnvironment({})).toMatchObject({
      databaseUrl: undefined,
      sources: undefined,
      logLevel: "info",
      port: 7071,
      deadRetentionMs: undefined,
    });
  });

  it("ADD-02 reads the retention of dead messages in days; 0 and nothing leave it to the app", async () => {
    const read = async (days: string) =>
      (await readEnvironment({ ONCEBOX_DEAD_RETENTION_DAYS: days })).deadRetentionMs;
    expect(await read("90")).toBe(90 * 86_400_000);
    expect(await read("366")).toBe(366 * 86_400_000);
    for (const none of ["0", "", " "]) expect(await read(none)).toBeUndefined();
    for (const wrong of ["-1", "1.5", "367", "90d", "ninety", "1e2"])
      await expect(read(wrong), wrong).rejects.toThrow(
        /^ONCEBOX_DEAD_RETENTION_DAYS must be a whole number of days from 1 to 366, or 0/,
      );
  });

  it("FUN-01 reads webhook sources from JSON, with references to where secrets are kept", async () => {
    const json = {
      stripe: { scheme: "stripe", secrets: ["whsec_a_secret_of_tests", { from: "env", name: "OLD_SECRET" }] },
      github: {
        scheme: "github",
        secrets: { from: "aws-secrets-manager", id: "prod/github", key: "webhook" },
      },
      shop: {
        scheme: "shopify",
        secrets: [{ from: "azure-key-vault", vault: "https://v.vault.azure.net", name: "shop" }],
      },
    };
    const { sources } = await readEnvironment({ ONCEBOX_WEBHOOKS: JSON.stringify(json) });
    expect(sources).toEqual(json);
  });

  it("one error lists everything that is wrong, and quotes no value", async () => {
    const error = await readEnvironment({
      ONCEBOX_WEBHOOKS:
        '{"stripe": {"scheme": "stripe", "secrets": [""]}, "x": {"scheme": 7, "secrets": {"from": "attic-5"}}}',
      ONCEBOX_DATABASE_URL: '{"from": "hunter2"',
      ONCEBOX_LOG_LEVEL: "loud",
      PORT: "70710",
    }).catch((reason: Error) => reason);
    expect(error).toBeInstanceOf(InvalidArgumentError);
    const { message } = error as Error;
    expect(message).toMatch(
      /ONCEBOX_WEBHOOKS: stripe\.secrets.*x\.scheme: must be the name.*x\.secrets: must be a secret, a ref.*PORT/s,
    );
    expect(message).toMatch(/ONCEBOX_DATABASE_URL is not valid JSON/);
    expect(message).toMatch(/ONCEBOX_LOG_LEVEL must be one of/);
    expect(message).not.toMatch(/hunter2|attic-5|70710/);
  });

  it.each([
    '{"from": "attic"}',
    '{"from": "env"}',
    '{"from": "env", "name": ""}',
    '{"from": "env", "name": "URL", "key": "x"}',
    '{"from": "aws-secrets-manager", "id": "prod/db", "key": 5}',
    '{"from": "azure-key-vault", "vault": "vault", "name": "db"}',
  ])("FUN-11 refuses a reference to the database URL that names no secret: %s", async (reference) => {
    await expect(readEnvironment({ ONCEBOX_DATABASE_URL: reference })).rejects.toThrow(
      /^ONCEBOX_DATABASE_URL must be a URL or \{"from": "env", "name": …\}/,
    );
  });

  it("a secret loses one line break at its end; one whose variable is not set is an error with the variable's name", async () => {
    const resolve = secretsFromEnvironment({ A: "a", EMPTY: "" });
    expect(await resolve({ from: "env", name: "A" })).toBe("a");
    await expect(resolve({ from: "env", name: "EMPTY" })).rejects.toThrow(/EMPTY.*not set/);
    const ended = secretsFromEnvironment({ ONE: "a\n", WINDOWS: "a\r\n", TWO: "a\n\n", NOTHING: "\n" });
    expect(await ended({ from: "env", name: "ONE" })).toBe("a");
    expect(await ended({ from: "env", name: "WINDOWS" })).toBe("a");
    expect(await ended({ from: "env", name: "TWO" })).toBe("a\n"); // a secret's own check refuses it
    await expect(ended({ from: "env", name: "NOTHING" })).rejects.toThrow(/NOTHING.*not set/);
    await expect(resolve({ from: "aws-secrets-manager", id: "x" })).rejects.toThrow(InvalidOperationError);
  });
});

describe("opening a database by its URL", () => {
  it.each([
    ["sqlite:app.db", "sqlite", "sqlite:app.db"],
    ["sqlite:///var/lib/app.db", "sqlite", "sqlite:/var/lib/app.db"],
    ["sqlite://app.db", "sqlite", "sqlite:app.db"],
    ["sqlite::memory:", "sqlite", "sqlite::memory:"],
    ["file:a%20b.db", "sqlite", "sqlite:a b.db"],
    ["file:///tmp/a%23b.db", "sqlite", "sqlite:/tmp/a#b.db"],
    ["file:///C:/data/app.db", "sqlite", "sqlite:C:/data/app.db"],
    ["sqlite:100%.db", "sqlite", "sqlite:100%.db"],
    ["postgres://app@/orders?host=/var/run/postgresql", "postgres", "postgres:unknown"],
    ["postgres://app:pw@db.example/orders", "postgres", "postgres:db.example/orders"],
    ["postgresql://app:pw@db.example/orders", "postgres", "postgres:db.example/orders"],
    ["mssql://app:pw@db.example/orders", "sqlserver", "sqlserver:db.example/orders"],
    ["sqlserver://app:pw@db.example/orders", "sqlserver", "sqlserver:db.example/orders"],
    [
      "Server=tcp:db.example,1433;Database=orders;User Id=app;Password=pw",
      "sqlserver",
      "sqlserver:tcp:db.example,1433/orders",
    ],
    ["User Id=app;Data Source=db.example;Initial Catalog=orders", "sqlserver", "sqlserver:db.example/orders"],
  ])("FUN-11 %s", async (url, dialect, id) => {
    const db = await openDatabase(url);
    expect({ dialect: db.dialect.name, id: db.id }).toEqual({ dialect, id });
    await db.close();
  });

  it.each([
    "mysql://root:hunter2@db/x",
    "hunter2",
    "",
    "sqlite:",
    "postgres://app:hunter2@",
    "postgres://app:hun#ter2@db.example/orders",
    "mssql://app:hunter2@",
    "Server=;Password=hunter2;Database=orders",
    "Server=db.example;Database= ;Password=hunter2",
    'Server=db.example;Password="hunter2;x=;y";User Id=',
  ])("FUN-11 refuses a URL that it cannot read without quoting it: %s", async (url) => {
    const failed = await openDatabase(url).then(
      () => undefined,
      (error: Error) => error,
    );
    expect(failed).toBeInstanceOf(InvalidArgumentError);
    expect(failed?.message).not.toContain("hunter2");
  });
});
