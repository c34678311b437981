import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import {
  type CatalogueOptions,
  createTenantStores,
  type Tenant,
  tenantsFromCatalogue,
  tenantsFromConfiguration,
} from "../../../src/app/tenants.js";
import type { SqlRow } from "../../../src/sql/driver.js";
import { serverOf } from "../../../src/tenants/connections/database-pools.js";
import { type ListedSecret, tenantsFromSecrets } from "../../../src/tenants/discovery/secrets.js";
import type { DiscoveryContext } from "../../../src/tenants/tenant.js";

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const context = (parts: Partial<DiscoveryContext> = {}): DiscoveryContext => ({
  signal: new AbortController().signal,
  resolveSecret: () => Promise.reject(new Error("none")),
  logger: silent,
  ...parts,
});

describe("discovery of tenants", () => {
  it("FUN-08 reports all problems of configured tenants in one error: fields, URLs, names, keys that are listed twice; and quotes no URL", () => {
    const wrong = [
      { id: "a", database: "sqlite:a.db" },
      { id: "a", database: "mysql://user:hidden@host/db" },
      { id: "c", database: "postgres://user:hid#den@host/db" },
      { id: "d", database: "sqlite:d.db", schema: "x".repeat(41), inbox: "" },
    ];
    let problem = "";
    try {
      tenantsFromConfiguration(wrong);
    } catch (error) {
      problem = inspect(error);
    }
    expect(problem).toMatch(/3\.schema.*3\.inbox.*1\.database.*2\.database.*"a" is listed more than once/s);
    expect(problem).not.toMatch(/hid/);
  });

  it("FUN-08 a discovered tenant whose URL or names are invalid is left out, and the warning gives the reason", async () => {
    const reasons: unknown[] = [];
    const tenants = createTenantStores({
      discover: () => [
        { id: "good", database: "sqlite:good.db" },
        { id: "typo", database: "postgre://user:hidden@host/db" },
        { id: "long", database: "sqlite:long.db", outbox: "x".repeat(41) },
        { id: "reference", database: { from: "env", name: "URL" } as unknown as string },
      ],
      logger: { ...silent, warn: (_, { tenant, reason }) => void reasons.push([tenant, reason]) },
    });
    expect(await tenants.list()).toEqual(["good"]);
    expect(reasons).toEqual([
      ["typo", expect.stringMatching(/database.*kind/)],
      ["long", expect.stringMatching(/outbox.*40 bytes/)],
      ["reference", expect.stringMatching(/database.*string/)],
    ]);
    expect(String(reasons)).not.toContain("hidden");
    await tenants.close();
  });

  it("FUN-08 the secrets of thousands of configured tenants are fetched some at a time", async () => {
    let now = 0;
    let most = 0;
    const discover = tenantsFromConfiguration(
      Array.from({ length: 500 }, (_, index) => ({
        id: `t${index}`,
        database: { from: "env", name: `T${index}` } as const,
      })),
    );
    const found = await discover(
      context({
        async resolveSecret() {
          most = Math.max(most, ++now);
          await new Promise((resolve) => setImmediate(resolve));
          now--;
          return "sqlite:a.db";
        },
      }),
    );
    expect(found.map(({ id }) => id)).toEqual(Array.from({ length: 500 }, (_, index) => `t${index}`));
    expect(most).toBeLessThanOrEqual(50);
  });

  it("FUN-08 a row of a catalogue without a key or a URL is left out", async () => {
    const rows: SqlRow[] = [
      { id: 7, database_url: "sqlite:7.db", schema_name: null, inbox_table: null, outbox_table: null },
      { id: null, database_url: "sqlite:x.db", schema_name: null, inbox_table: null, outbox_table: null },
      { id: "b", database_url: null, schema_name: null, inbox_table: null, outbox_table: null },
    ];
    const database = { driver: { query: async () => rows } } as unknown as CatalogueOptions["database"];
    const tenants = createTenantStores({
      discover: tenantsFromCatalogue({ database }),
      allow: { kinds: ["sqlite"], folders: ["."] },
    });
    expect(await tenants.list()).toEqual(["7"]);
    await tenants.close();
  });

  it("FUN-08 secrets that were fetched before the time was over are not fetched again", async () => {
    const listed: readonly ListedSecret[] = ["a", "b", "c"].map((id) => ({
      name: `t/${id}`,
      tags: {},
      version: "1",
    }));
    const asked: string[] = [];
    let breaksAfter = 2;
    const fetchTexts = async (
      names: readonly string[],
      { fetched }: { fetched: (name: string, text: string) => void },
    ) => {
      for (const name of names) {
        if (breaksAfter-- === 0) throw new Error("the time is over");
        asked.push(name);
        fetched(name, `sqlite:${name.slice(2)}.db`);
      }
    };
    const discover = tenantsFromSecrets("tenants", { prefix: "t/" }, async () => ({
      list: async () => listed,
      fetchTexts,
    }));
    const context = {
      signal: new AbortController().signal,
      logger: silent,
      resolveSecret: async () => "",
    };
    await expect(discover(context)).rejects.toThrow("over");
    const tenants: readonly Tenant[] = await discover(context);
    expect(tenants.map(({ id }) => id)).toEqual(["a", "b", "c"]);
    expect(asked).toEqual(["t/a", "t/b", "t/c"]);
  });

  it("ADD-08 every URL that can be opened belongs to a server, and no error quotes it", () => {
    expect(serverOf("postgres://u:hidden@DB.example/a")).toBe("db.example:5432");
    expect(serverOf("Server=tcp:Db.example,1444;Database=a;Password=hidden")).toBe("db.example:1444");
    expect(serverOf("postgres://u:hidden@/a")).toBe(serverOf("postgres://u:hidden@/b")); // a local socket
    expect(serverOf("a URL that only the user's own open can read")).toBe("unknown");
  });
});
