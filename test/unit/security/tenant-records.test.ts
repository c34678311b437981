import { describe, expect, it } from "vitest";
import {
  type AllowedDatabases,
  type CatalogueOptions,
  createTenantStores,
  tenantsFromCatalogue,
} from "../../../src/app/tenants.js";
import type { LogFields } from "../../../src/base/logger.js";
import type { SqlRow } from "../../../src/sql/driver.js";
import { tenantOfSecret } from "../../../src/tenants/discovery/secrets.js";

/** A catalogue whose only record has this URL. */
const catalogueOf = (url: string) => {
  const row: SqlRow = {
    id: "a",
    database_url: url,
    schema_name: null,
    inbox_table: null,
    outbox_table: null,
  };
  const database = { driver: { query: async () => [row] } } as unknown as CatalogueOptions["database"];
  return tenantsFromCatalogue({ database });
};

async function isServed(url: string, allow: AllowedDatabases) {
  const warned: LogFields[] = [];
  const nothing = () => {};
  const logger = {
    debug: nothing,
    info: nothing,
    error: nothing,
    warn: (_: string, f: LogFields) => warned.push(f),
  };
  const stores = createTenantStores({ discover: catalogueOf(url), allow, logger });
  const list = await stores.list();
  await stores.close();
  return { served: list.length === 1, said: JSON.stringify(warned) };
}

const network: AllowedDatabases = {
  kinds: ["postgres", "sqlserver"],
  hosts: ["db.example.com", "*.eu.example.com", "alt.example.com:5433", "[::1]"],
};

describe("a tenant's record chooses its database", () => {
  it("FUN-08 discovered tenants need a list of allowed databases, and the error says how to write it", () => {
    expect(() => createTenantStores({ discover: catalogueOf("sqlite:a.db") })).toThrow(
      /Set allow .*kinds: \["postgres"\], hosts: /,
    );
  });

  it.each([
    [{ kinds: [] }, /kinds/],
    [{ kinds: ["oracle"] }, /kinds/],
    [{ kinds: ["postgres"] }, /hosts/],
    [{ kinds: ["postgres"], hosts: ["*"] }, /hosts/],
    [{ kinds: ["postgres"], hosts: ["a/b"] }, /hosts/],
    [{ kinds: ["sqlite"] }, /folders/],
    [{ kinds: ["sqlite"], folders: ["data"], host: ["a"] }, /allow\.host is not known/],
  ])("FUN-08 a list that allows nothing, or anything, is refused: %j", (allow, said) => {
    const create = () => createTenantStores({ discover: () => [], allow: allow as never });
    expect(create).toThrow(said);
  });

  it.each([
    "postgres://app:hidden@db.example.com/orders?sslmode=verify-full",
    "postgres://app@a.b.EU.example.com:6432/orders?prepare=false",
    "postgres://app:hidden@alt.example.com:5433/orders",
    "postgres://app:hidden@[::1]/orders",
    "mssql://app:hidden@db.example.com/orders?encrypt=true",
    "Server=tcp:db.example.com,1433;Database=orders;Authentication=Active Directory Default;Encrypt=true",
    'Data Source=db.example.com;Initial Catalog=orders;User Id=app;Password="hid;den=";TrustServerCertificate=False',
  ])("FUN-08 an allowed database is served: %s", async (url) => {
    expect(await isServed(url, network)).toEqual({ served: true, said: "[]" });
  });

  it.each([
    // The password of the environment, or a token of the functions' identity, would go to a foreign server.
    "postgres://app@foreign.example/x",
    "postgres://app:hidden@db.example.com.foreign.example/x",
    "postgres://app:hidden@eu.example.com/x",
    "postgres://app:hidden@alt.example.com/x",
    "postgres://app:hidden@db.example.com/x?host=foreign.example",
    "postgres://app:hidden@db.example.com/x?hostaddr=203.0.113.1",
    "postgres://app:hidden@/x",
    "postgres://app:hidden@%2Ftmp/x",
    "postgres://db.example.com:hidden\t@foreign.example/x",
    "Server=foreign.example;Database=x;Authentication=Active Directory Default",
    "Server=db.example.com;Data Source=foreign.example;Database=x",
    "Server=db.example.com;Database=x;Server=foreign.example",
    'Server=db.example.com;Database=x;Password="a"";Server=foreign.example',
    "Server={db.example.com};Database=x",
    "Server=np:db.example.com;Database=x",
    "Server=db.example.com;Database=x;Msi Endpoint=http://foreign.example",
    "mssql://app:hidden@foreign.example/x",
    // Anyone on the way could read it, or answer instead of the server.
    "postgres://app:hidden@db.example.com/x?sslmode=disable",
    "postgres://app:hidden@db.example.com/x?sslmode=no-verify",
    "mssql://app:hidden@db.example.com/x?encrypt=false",
    "mssql://app:hidden@db.example.com/x?trustServerCertificate=true",
    "Server=db.example.com;Database=x;Encrypt=false",
    "Server=db.example.com;Database=x;Trust Server Certificate=true",
    // Any file would be read, opened or created.
    "postgres://app:hidden@db.example.com/x?sslrootcert=/etc/passwd",
    "postgres://app:hidden@db.example.com/x?sslkey=/etc/passwd",
    "sqlite:/etc/any.db",
  ])("FUN-08 any other database is left out, and no log line quotes it: %s", async (url) => {
    const { served, said } = await isServed(url, network);
    expect(served).toBe(false);
    expect(said).toContain("The database URL ");
    expect(said).not.toMatch(/hidden|foreign|passwd/);
  });

  it("FUN-08 a setting that is named is allowed, and only that", async () => {
    const allow = { ...network, settings: ["encrypt", "sslrootcert"] };
    expect((await isServed("mssql://u:p@db.example.com/x?encrypt=false", allow)).served).toBe(true);
    expect((await isServed("postgres://u:p@db.example.com/x?sslrootcert=/ca.pem", allow)).served).toBe(true);
    expect((await isServed("postgres://u:p@db.example.com/x?sslkey=/ca.pem", allow)).served).toBe(false);
    expect((await isServed("mssql://u:p@db.example.com/x?trustServerCertificate=true", allow)).served).toBe(
      false,
    );
  });

  it.each([
    ["sqlite:/data/tenants/a.db", true],
    ["sqlite:/data/tenants/deep/a.db", true],
    ["sqlite:/data/tenants-of-others/a.db", false],
    ["sqlite:/data/tenants/../a.db", false],
    ["sqlite:/data/tenants/%2e%2e/a.db", false],
    ["sqlite:/data/tenants", false],
    ["sqlite::memory:", false],
    ["sqlite:file:/data/tenants/a.db?mode=rwc", false],
    ["postgres://u:p@db.example.com/x", false],
  ])("FUN-08 a file is in an allowed folder: %s %s", async (url, served) => {
    expect((await isServed(url, { kinds: ["sqlite"], folders: ["/data/tenants"] })).served).toBe(served);
  });

  it.each([
    ["a path in the host", { host: "foreign.example/x?" }],
    ["a user in the host", { host: "db.example.com@foreign.example" }],
    ["a parameter in the port", { host: "db.example.com", port: "5432/x?host=foreign.example" }],
    ["no text as host", { host: ["foreign.example"] }],
  ])("FUN-08 a secret's fields cannot rewrite its URL: %s", (_what, fields) => {
    const text = JSON.stringify({ engine: "postgres", username: "u", password: "p", dbname: "d", ...fields });
    expect(() => tenantOfSecret("a", text)).toThrow(/not a database URL/);
  });
});
