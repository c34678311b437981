import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { tenantsFromKeyVault } from "../../../src/adapters/azure/key-vault.js";
import type { LogFields } from "../../../src/base/logger.js";
import { localTls } from "../azure/local-tls.js";
import { type ManagedIdentity, startManagedIdentity } from "../azure/managed-identity.js";
import { startVault, type VaultSecret } from "./key-vault-list-server.js";

let secrets: Map<string, VaultSecret>;
let vault: Awaited<ReturnType<typeof startVault>>;
let identity: ManagedIdentity;

beforeEach(async () => {
  secrets = new Map();
  vault = await startVault(secrets);
  identity = await startManagedIdentity();
});
afterEach(async () => {
  await vault.stop();
  await identity.stop();
});

interface Found {
  /** Until there was a list. */
  readonly flights: number;
  readonly databases: Readonly<Record<string, string>>;
  readonly again: readonly string[];
  readonly warned: readonly LogFields[];
}

async function find(filter: object): Promise<Found> {
  const child = fileURLToPath(new URL("key-vault-child.ts", import.meta.url));
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--no-warnings", "--import", "tsx", child, vault.url, JSON.stringify(filter)],
    { env: { ...process.env, ...identity.env, ...localTls.env } },
  );
  return JSON.parse(stdout.trim().split("\n").at(-1)!) as Found;
}

describe("tenants in Azure Key Vault", () => {
  it("FUN-08 finds all secrets with the prefix over several pages, and a refresh reads no unchanged secret", async () => {
    for (let index = 0; index < 7; index++) secrets.set(`tenant-t${index}`, { text: `sqlite:${index}.db` });
    secrets.set("other", { text: "sqlite:x.db" });
    secrets.set("tenant-off", { text: "sqlite:off.db", enabled: false });
    const { databases, again } = await find({ prefix: "tenant-" });
    expect(databases).toEqual(
      Object.fromEntries(Array.from({ length: 7 }, (_, index) => [`t${index}`, `sqlite:${index}.db`])),
    );
    expect(again).toEqual(Object.keys(databases));
    const between = vault.paths.indexOf("/between");
    const isRead = (path: string) => path.startsWith("/secrets/tenant-");
    expect(vault.paths.slice(0, between).filter(isRead)).toHaveLength(7);
    expect(vault.paths.slice(between).filter(isRead)).toEqual([]);
    expect(vault.paths.slice(between).filter((path) => path.replace(/\/$/, "") === "/secrets")).toHaveLength(
      3,
    );
  });

  it("FUN-08 finds secrets by a tag, takes the key from another tag, and warns about a secret that cannot be read", async () => {
    secrets.set("a", { text: '{"url": "sqlite:a.db"}', tags: { kind: "tenant", customer: "Acme Ltd" } });
    secrets.set("b", { text: "sqlite:b.db", tags: { kind: "other", customer: "b" } });
    secrets.set("c", { text: "hidden", tags: { kind: "tenant", customer: "c" }, refusal: 403 });
    const { databases, warned } = await find({ tag: { key: "kind", value: "tenant" }, idTag: "customer" });
    expect(databases).toEqual({ "Acme Ltd": "sqlite:a.db" });
    expect(warned.map((fields) => fields.secret)).toContain("c");
    expect(JSON.stringify(warned)).not.toContain("hidden");
  });

  it("FUN-08 a vault that throttles leaves no tenant out: fetched secrets are kept, and the next refresh continues", async () => {
    for (let index = 0; index < 7; index++) secrets.set(`tenant-t${index}`, { text: `sqlite:${index}.db` });
    secrets.get("tenant-t6")!.throttled = 4; // the client itself tries three times
    const { databases, flights, warned } = await find({ prefix: "tenant-" });
    expect(Object.keys(databases)).toHaveLength(7);
    expect({ flights, warned }).toEqual({ flights: 2, warned: [] });
    const reads = vault.paths.filter((path) => path.startsWith("/secrets/tenant-"));
    expect(reads.filter((path) => !path.startsWith("/secrets/tenant-t6"))).toHaveLength(6);
  });

  it("FUN-08 refuses a vault without a URL, and a filter that would take every secret", () => {
    expect(() => tenantsFromKeyVault({ vault: "contoso", prefix: "t-" })).toThrow(/vault/);
    expect(() => tenantsFromKeyVault({ vault: "https://contoso.vault.azure.net" })).toThrow(
      /prefix or a tag/,
    );
  });
});
