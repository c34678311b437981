import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { tenantsFromSecretsManager } from "../../../src/adapters/aws/secrets-manager.js";
import { createTenantStores } from "../../../src/app/tenants.js";
import type { LogFields, Logger } from "../../../src/base/logger.js";
import { type StoredSecret, startSecretsManager } from "./secrets-manager-server.js";

const env = { AWS_REGION: "us-east-1", AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test" };
const before = { ...process.env };
let secrets: Map<string, StoredSecret>;
let service: Awaited<ReturnType<typeof startSecretsManager>>;

beforeEach(async () => {
  secrets = new Map();
  service = await startSecretsManager(secrets);
  Object.assign(process.env, env, { AWS_ENDPOINT_URL_SECRETS_MANAGER: service.url });
});
afterEach(async () => {
  process.env = { ...before };
  await service.stop();
});

const allow = { kinds: ["sqlite", "postgres"], folders: ["."], hosts: ["db.example"] } as const;

function tenants(filter: Parameters<typeof tenantsFromSecretsManager>[0]) {
  const warned: LogFields[] = [];
  const warn = (_: string, fields: LogFields) => void warned.push(fields);
  const logger: Logger = { debug: () => {}, info: () => {}, warn, error: warn };
  return {
    warned,
    stores: createTenantStores({ discover: tenantsFromSecretsManager(filter), allow, logger }),
  };
}

describe("tenants in AWS Secrets Manager", () => {
  it("FUN-08 finds all whose names begin with the prefix, over several pages and batches", async () => {
    for (let index = 0; index < 25; index++) secrets.set(`tenants/t${index}`, { text: `sqlite:${index}.db` });
    secrets.set("other/x", { text: "sqlite:x.db" });
    secrets.set("Tenants/upper", { text: "sqlite:upper.db" }); // for the service it begins so too
    const { stores } = tenants({ prefix: "tenants/" });
    expect(await stores.list()).toEqual(Array.from({ length: 25 }, (_, index) => `t${index}`));
    expect((await stores.stores("t7")).db.id).toBe("sqlite:7.db");
    expect(service.calls.filter((call) => call === "BatchGetSecretValue")).toHaveLength(2);
  });

  it("FUN-08 finds those with a tag, takes the key from another, and reads what AWS keeps for a database", async () => {
    const text = JSON.stringify({
      engine: "postgres",
      host: "db.example",
      port: 6432,
      username: "app",
      password: "p@ss/word",
      dbname: "acme",
    });
    secrets.set("a", { text, tags: { kind: "tenant", customer: "Acme Ltd" } });
    secrets.set("b", { text: "sqlite:b.db", tags: { kind: "other", customer: "tenant" } });
    secrets.set("c", {
      text: '{"url": "sqlite:c.db", "inbox": "In"}',
      tags: { kind: "tenant", customer: "c" },
    });
    const { stores } = tenants({ tag: { key: "kind", value: "tenant" }, idTag: "customer" });
    expect(await stores.list()).toEqual(["Acme Ltd", "c"]);
    expect((await stores.stores("Acme Ltd")).db.id).toBe("postgres:db.example/acme");
    expect((await stores.stores("c")).tables.inbox).toBe("In");
  });

  it("FUN-08 a refresh fetches only changed secrets", async () => {
    secrets.set("t/a", { text: "sqlite:a.db" });
    secrets.set("t/b", { text: "sqlite:b.db" });
    const { stores } = tenants({ prefix: "t/" });
    const unchanged = await stores.stores("a");
    secrets.set("t/b", { text: "sqlite:moved.db", changed: 2 });
    secrets.delete("t/c");
    service.calls.length = 0;
    await stores.refresh();
    expect(service.calls).toEqual(["ListSecrets", "BatchGetSecretValue"]);
    expect((await stores.stores("b")).db.id).toBe("sqlite:moved.db");
    expect(await stores.stores("a")).toBe(unchanged);
    service.calls.length = 0;
    await stores.refresh();
    expect(service.calls).toEqual(["ListSecrets"]);
  });

  it("FUN-08 a secret that cannot be read is reported without its text; the others are served, and a known one stays", async () => {
    secrets.set("t/a", { text: "sqlite:a.db" });
    secrets.set("t/broken", { text: '{"hidden": 1}' });
    secrets.set("t/denied", { refusal: "DecryptionFailure" });
    secrets.set("t/binary", {});
    const { stores, warned } = tenants({ prefix: "t/" });
    expect(await stores.list()).toEqual(["a"]);
    expect(warned.map((fields) => fields.secret).sort()).toEqual(["t/binary", "t/broken", "t/denied"]);
    expect(JSON.stringify(warned)).not.toContain("hidden");
    secrets.set("t/a", { refusal: "InternalServiceError", changed: 2 });
    await stores.refresh();
    expect(await stores.list()).toEqual(["a"]);
  });

  it("FUN-08 without a prefix or a tag every secret would be a tenant, which is refused", () => {
    expect(() => tenantsFromSecretsManager({})).toThrow(/prefix or a tag/);
    expect(() => tenantsFromSecretsManager({ prefix: "" })).toThrow(/prefix or a tag/);
  });
});
