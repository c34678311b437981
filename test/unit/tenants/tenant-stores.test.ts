import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  createTenantStores,
  type Tenant,
  type TenantStoreProvider,
  type TenantStoresOptions,
  tenantsFromConfiguration,
} from "../../../src/app/tenants.js";
import type { LogFields, Logger } from "../../../src/base/logger.js";
import { InvalidArgumentError, InvalidOperationError, migrate } from "../../../src/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";

let folder: string;
let made: TenantStoreProvider[] = [];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "oncebox-tenants-"));
});
afterEach(async () => {
  for (const tenants of made) await tenants.close();
  made = [];
  await rm(folder, { recursive: true, force: true });
});

const urlOf = (name: string) => `sqlite:${join(folder, `${name}.db`)}`;
const tenant = (id: string, file = id): Tenant => ({ id, database: urlOf(file) });
const message = (messageId: string) => ({ source: "test", messageId, topic: "t", payload: "" });

/** A list that tests change, and the number of calls for it. */
function source(...tenants: Tenant[]) {
  const found = { tenants, asked: 0, fails: undefined as Error | undefined };
  const discover = async () => {
    found.asked++;
    if (found.fails !== undefined) throw found.fails;
    return found.tenants;
  };
  return Object.assign(found, { discover });
}

function stores(options: TenantStoresOptions): TenantStoreProvider {
  const tenants = createTenantStores(options);
  made.push(tenants);
  return tenants;
}

async function migrated(...files: string[]): Promise<void> {
  for (const file of files) {
    const db = openSqlite({ file: join(folder, `${file}.db`) });
    await migrate(db);
    await db.close();
  }
}

const guid = "3F2504E0-4F89-41D3-9A0C-0305E82C3301";

describe("stores of tenants", () => {
  it("FUN-08 a known tenant does not wait for the list to be refreshed", async () => {
    let nowMs = 0;
    const list = source(tenant("acme"));
    let answer = () => {};
    const tenants = stores({
      discover: async () => {
        if (list.asked > 0) await new Promise<void>((resolve) => (answer = resolve));
        return list.discover();
      },
      now: () => nowMs,
    });
    const inbox = await tenants.inbox("acme");
    nowMs = 300_000;
    list.tenants = [tenant("acme"), tenant("globex")];
    expect(await tenants.inbox("acme")).toBe(inbox);
    answer();
    expect(await tenants.list()).toEqual(["acme", "globex"]);
  });

  it("FUN-08 a source that hangs again and again is called less and less often, down to once in five minutes", async () => {
    let nowMs = 0;
    const list = source(tenant("acme"));
    let isHanging = false;
    const tenants = stores({
      discover: async () => {
        const found = await list.discover();
        return isHanging ? new Promise<never>(() => {}) : found;
      },
      discoverMs: 1,
      now: () => nowMs,
    });
    await tenants.list();
    isHanging = true;
    const asked: number[] = [];
    for (nowMs = 300_000; nowMs <= 1_500_000; nowMs += 15_000) {
      const before = list.asked;
      expect(await tenants.list()).toEqual(["acme"]);
      if (list.asked > before) asked.push((nowMs - 300_000) / 1_000);
    }
    expect(asked).toEqual([0, 30, 90, 210, 450, 750, 1_050]);
    isHanging = false;
    nowMs += 300_000;
    await tenants.list();
    isHanging = true; // it succeeded once: the delays start anew
    nowMs += 300_000;
    await tenants.list();
    const before = list.asked;
    nowMs += 30_000;
    await tenants.list();
    expect(list.asked).toBe(before + 1);
  });

  it("FUN-08 a source that returns no list is an error that says so", async () => {
    for (const answer of [undefined, null, {}, "acme"]) {
      const tenants = stores({ discover: (() => answer) as unknown as TenantStoresOptions["discover"] });
      await expect(tenants.list()).rejects.toThrow(/discover must return a list of tenants/);
    }
  });

  it("FUN-08 IBX-092 unknown keys, one after the other, refresh the list at most once a second", async () => {
    const list = source(tenant("acme"));
    const tenants = stores({ discover: list.discover, now: () => 0 });
    await tenants.list();
    const asks = Array.from({ length: 20 }, async (_, index) => {
      for (let tick = 0; tick < index; tick++) await new Promise((resolve) => setImmediate(resolve));
      await expect(tenants.inbox(`nobody-${index}`)).rejects.toThrow(InvalidOperationError);
    });
    await Promise.all(asks);
    expect(list.asked).toBeLessThanOrEqual(3);
  });

  it("FUN-08 closing waits for running work", async () => {
    await migrated("acme");
    const tenants = stores({ discover: source(tenant("acme")).discover });
    const { inbox, outbox } = await tenants.stores("acme");
    const order: string[] = [];
    let isClosed = Promise.resolve();
    await inbox.transaction(async (tx) => {
      isClosed = tenants.close().then(() => void order.push("closed"));
      await new Promise((resolve) => setImmediate(resolve));
      await outbox.enqueue({ topic: "t", payload: "" }, { tx });
      order.push("enqueued");
    });
    await isClosed;
    expect(order).toEqual(["enqueued", "closed"]);
    expect(tenants.connections.openFiles()).toBe(0);
  });

  it("FUN-08 a store asked for after close() is refused", async () => {
    await migrated("acme");
    const tenants = stores({ discover: source(tenant("acme")).discover });
    await (await tenants.inbox("acme")).stats();
    await tenants.close();
    for (const ask of [tenants.inbox, tenants.outbox, tenants.stores, tenants.find])
      await expect(ask("acme")).rejects.toThrow(/were closed/);
    expect(tenants.connections.openFiles()).toBe(0);
  });

  it("FUN-08 a store asked for while close() begins is refused", async () => {
    let answer = (): void => {};
    const asked = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const tenants = stores({ discover: () => asked.then(() => [tenant("acme")]) });
    const refused = expect(tenants.inbox("acme")).rejects.toThrow(/were closed/);
    await tenants.close();
    answer();
    await refused;
  });

  it("FUN-08 ADD-08 nothing is kept of a tenant that goes or changes its URL", async () => {
    await migrated("a");
    const list = source();
    const databases: WeakRef<object>[] = [];
    const tenants = stores({
      discover: list.discover,
      open: () => {
        const db = openSqlite({ file: join(folder, "a.db") });
        databases.push(new WeakRef(db.driver));
        return db;
      },
    });
    for (let round = 0; round < 50; round++) {
      list.tenants = [
        { id: "moves", database: `sqlite:moves-${round}` },
        { id: `goes-${round}`, database: `sqlite:goes-${round}` },
      ];
      await tenants.refresh();
      for (const { id } of list.tenants) await (await tenants.inbox(id)).stats();
    }
    list.tenants = [];
    await tenants.refresh();
    await expect.poll(() => tenants.connections.openFiles()).toBe(0);
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const kept = () => {
      collect();
      return databases.filter((one) => one.deref() !== undefined).length;
    };
    expect(databases).toHaveLength(100);
    await expect.poll(kept, { timeout: 15_000 }).toBeLessThanOrEqual(2); // the last ones may be on the stack
  }, 30_000);

  it("FUN-08 calls at the same time share one refresh", async () => {
    const list = source(tenant("acme"));
    const tenants = stores({ discover: list.discover });
    await Promise.all([tenants.list(), tenants.inbox("acme"), tenants.distinctStores(), tenants.list()]);
    expect(list.asked).toBe(1);
  });

  it("IBX-095 IBX-096 IBX-097 OBX-077 OBX-078 OBX-079 new tenants get stores, removed tenants lose them, unchanged tenants keep them", async () => {
    await migrated("a", "b", "c");
    const list = source(tenant("a"), tenant("b"));
    const tenants = stores({ discover: list.discover });
    const [a, b] = [await tenants.stores("a"), await tenants.stores("b")];
    await a.inbox.stats();
    await b.inbox.stats();
    expect(tenants.connections.openFiles()).toBe(2);
    list.tenants = [tenant("a"), tenant("c")];
    await tenants.refresh();
    expect(await tenants.stores("a")).toBe(a);
    await expect(tenants.stores("b")).rejects.toThrow(InvalidOperationError);
    expect((await (await tenants.inbox("c")).stats()).due).toBe(0);
    await expect.poll(() => tenants.connections.openFiles()).toBe(2);
  });

  it("IBX-096 OBX-078 the pool of a removed tenant is closed after its running work", async () => {
    await migrated("a");
    const list = source(tenant("a"));
    const tenants = stores({ discover: list.discover });
    const { inbox, outbox } = await tenants.stores("a");
    await inbox.transaction(async (tx) => {
      list.tenants = [];
      await tenants.refresh();
      expect(await tenants.list()).toEqual([]);
      await outbox.enqueue({ topic: "t", payload: "" }, { tx });
    });
    await expect.poll(() => tenants.connections.openFiles()).toBe(0);
    // A caller that still holds its stores loses no work, and leaves nothing open.
    expect((await outbox.stats()).due).toBe(1);
    await expect.poll(() => tenants.connections.openFiles()).toBe(0);
  });

  it("FUN-08 when a source fails, the last list stays in use, a warning is logged without the error's text, and the source is called again after half a minute", async () => {
    let nowMs = 0;
    const lines: [string, LogFields][] = [];
    const write = (text: string, fields: LogFields) => void lines.push([text, fields]);
    const logger: Logger = { debug: () => {}, info: () => {}, warn: write, error: write };
    const list = source(tenant("acme"));
    const tenants = stores({ discover: list.discover, now: () => nowMs, logger });
    const inbox = await tenants.inbox("acme");
    list.fails = Object.assign(new Error("secret words"), { code: "EAI_AGAIN" });
    nowMs = 300_000;
    expect(await tenants.list()).toEqual(["acme"]);
    expect(await tenants.inbox("acme")).toBe(inbox);
    expect(lines).toEqual([
      ["tenants could not be refreshed; the last list is used", { reason: "Error EAI_AGAIN" }],
    ]);
    nowMs += 30_000;
    list.fails = undefined;
    await tenants.list();
    expect(list.asked).toBe(3);
  });

  it("FUN-08 a source that fails or hangs at the first call is an error, and the next call tries again", async () => {
    const list = source(tenant("acme"));
    list.fails = new Error("away");
    const failing = stores({ discover: list.discover });
    await expect(failing.list()).rejects.toThrow("away");
    list.fails = undefined;
    expect(await failing.list()).toEqual(["acme"]);
    const hanging = stores({ discover: () => new Promise<never>(() => {}), discoverMs: 10 });
    await expect(hanging.list()).rejects.toThrow(/discoverMs/);
  });

  it("FUN-08 an invalid tenant, or one that is listed twice, is left out with a warning, and the others are served", async () => {
    const warned: LogFields[] = [];
    const logger: Logger = {
      debug: () => {},
      info: () => {},
      warn: (_, f) => void warned.push(f),
      error: () => {},
    };
    const wrong = { id: "bad", database: 5 } as unknown as Tenant;
    const list = source(tenant("acme"), wrong, tenant("acme", "other"));
    const tenants = stores({ discover: list.discover, logger });
    expect(await tenants.list()).toEqual(["acme"]);
    expect(warned.map((fields) => fields.tenant)).toEqual(["bad", "acme"]);
  });

  it("ADD-08 tenants with the same tables are one distinct store, and tenants with the same database have one pool", async () => {
    await migrated("shared", "own");
    const other = { ...tenant("c", "shared"), inbox: "Inbox2", outbox: "Outbox2" };
    const list = source(tenant("b", "shared"), tenant("a", "shared"), other, tenant("d", "own"));
    const tenants = stores({ discover: list.discover });
    expect([...(await tenants.distinctStores())].sort()).toEqual(["a", "c", "d"]);
    await (await tenants.inbox("a")).receive(message("1"));
    expect((await (await tenants.inbox("b")).stats()).due).toBe(1);
    await expect((await tenants.inbox("c")).stats()).rejects.toThrow(/Inbox2/);
    await (await tenants.inbox("d")).stats();
    expect(tenants.connections.openFiles()).toBe(2);
  });

  it("ADD-08 more tenants than connections: pools open and close, and the limit holds", async () => {
    const names = Array.from({ length: 12 }, (_, index) => `t${index}`);
    await migrated(...names);
    const tenants = stores({
      discover: source(...names.map((name) => tenant(name))).discover,
      connections: { files: 3 },
    });
    let most = 0;
    await Promise.all(
      names.map(async (name) => {
        for (let round = 0; round < 5; round++) {
          await (await tenants.inbox(name)).receive(message(String(round)));
          most = Math.max(most, tenants.connections.openFiles());
        }
      }),
    );
    expect(most).toBe(3);
    for (const name of names) expect((await (await tenants.inbox(name)).stats()).due).toBe(5);
  });
});

describe("tenants from configuration", () => {
  it("FUN-08 FUN-07 a configured tenant whose secret cannot be read is left out, or keeps its last database", async () => {
    const secrets = new Map([["ACME", urlOf("acme")]]);
    const resolveSecret = async ({ name }: { readonly name?: string }) => {
      const secret = secrets.get(name!);
      if (secret === undefined) throw Object.assign(new Error(`hidden ${name}`), { code: "ENOSECRET" });
      return secret;
    };
    const lines: [string, LogFields][] = [];
    const write = (text: string, fields: LogFields) => void lines.push([text, fields]);
    const logger: Logger = { debug: () => {}, info: () => {}, warn: write, error: write };
    const tenants = stores({
      discover: tenantsFromConfiguration([
        { id: "acme", database: { from: "env", name: "ACME" } },
        { id: "globex", database: { from: "env", name: "GLOBEX" } },
      ]),
      resolveSecret: resolveSecret as NonNullable<TenantStoresOptions["resolveSecret"]>,
      logger,
    });
    expect(await tenants.list()).toEqual(["acme"]);
    expect(lines).toEqual([
      ["the database of a tenant could not be read", { tenant: "globex", reason: "Error ENOSECRET" }],
    ]);
    secrets.set("GLOBEX", urlOf("globex")).delete("ACME");
    await tenants.refresh();
    expect(await tenants.list()).toEqual(["acme", "globex"]);
    secrets.clear(); // the whole store of secrets is unavailable: that is a failing source
    await tenants.refresh();
    expect(await tenants.list()).toEqual(["acme", "globex"]);
  });

  it("FUN-08 reports all problems in one error, and quotes no value", () => {
    const wrong = [
      { id: "", database: "sqlite:a.db" },
      { id: "b", database: { from: "nowhere", name: "hidden" } },
      { id: "c", database: "sqlite:c.db", tables: 1 },
    ] as unknown as Parameters<typeof tenantsFromConfiguration>[0];
    expect(() => tenantsFromConfiguration(wrong)).toThrow(InvalidArgumentError);
    expect(() => tenantsFromConfiguration(wrong)).toThrow(/0\.id.*1\.database.*2.*tables/s);
    expect(() => tenantsFromConfiguration(wrong)).not.toThrow(/hidden/);
    const twice = [guid, guid.toLowerCase()].map((id) => ({ id, database: "sqlite:a.db" }));
    expect(() => tenantsFromConfiguration(twice)).toThrow(/listed more than once/);
  });

  it("FUN-08 fetches referenced URLs at each refresh", async () => {
    let url = urlOf("first");
    const tenants = stores({
      discover: tenantsFromConfiguration([
        { id: "acme", database: { from: "env", name: "ACME_URL" } },
        { id: "globex", database: urlOf("globex") },
      ]),
      resolveSecret: async () => url,
    });
    const { db } = await tenants.stores("acme");
    expect(db.id).toContain("first.db");
    url = urlOf("second");
    await tenants.refresh();
    expect((await tenants.stores("acme")).db.id).toContain("second.db");
    expect(await tenants.list()).toEqual(["acme", "globex"]);
  });
});
