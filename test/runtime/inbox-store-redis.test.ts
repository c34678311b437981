import { randomUUID } from "node:crypto";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { LeasingInboxStore } from "../../src/inbox-store/inbox-store.js";
import { createRedisInboxStore } from "../../src/inbox-store/redis-inbox-store.js";
import { startProxy } from "../support/cuttable-proxy.js";
import { findServer, needs } from "../support/servers/find-server.js";
import { redisServer } from "../support/servers/recipes.js";
import { freePort, type StartedServer } from "../support/start-postgres.js";

const start = await findServer(redisServer);
const dayMs = 24 * 60 * 60 * 1_000;

describe.skipIf(start === undefined)(`the inbox store on Redis (${needs(redisServer)})`, () => {
  let server: StartedServer;
  let redis: Redis;
  let store: LeasingInboxStore;
  let prefix: string;

  beforeAll(async () => {
    server = await start!();
    redis = new Redis(server.url);
  });
  afterAll(async () => {
    redis?.disconnect();
    await server?.stop();
  });
  beforeEach(() => {
    prefix = `test:${randomUUID()}:`;
    store = createRedisInboxStore({ client: redis, prefix, retentionMs: 7 * dayMs });
  });

  const ttlMs = (key: string) => redis.pttl(`${prefix}{${key}}`);

  const acquired = async (key: string, leaseMs = 30_000): Promise<string> => {
    const result = await store.tryBegin(key, { leaseMs });
    if (result.status !== "Acquired") throw new Error(result.status);
    return result.leaseId;
  };

  it("SVC-10 runs its scripts again after the server has forgotten them", async () => {
    const leaseId = await acquired("k");
    await redis.script("FLUSH");
    expect(await store.renew("k", leaseId, 60_000)).toMatchObject({ status: "Renewed" });
    await redis.script("FLUSH");
    expect(await store.finish("k", leaseId)).toEqual({ status: "Processed" });
    await redis.script("FLUSH");
    expect(await store.isProcessed("k")).toBe(true);
  });

  it("SVC-08 SVC-10 lets Redis remove a processed key after the retention", async () => {
    await store.finish("finished", await acquired("finished"));
    await store.markProcessed("marked");
    for (const key of ["finished", "marked"]) {
      expect(await ttlMs(key)).toBeGreaterThan(7 * dayMs - 60_000);
      expect(await ttlMs(key)).toBeLessThanOrEqual(7 * dayMs);
    }
  });

  it("SVC-08 SVC-10 lets Redis remove a key that nobody finished, counted from the end of its lease", async () => {
    const leaseId = await acquired("held", 3_600_000);
    expect(await ttlMs("held")).toBeGreaterThan(7 * dayMs + 3_600_000 - 60_000);
    await store.renew("held", leaseId, 2 * 3_600_000);
    expect(await ttlMs("held")).toBeGreaterThan(7 * dayMs + 2 * 3_600_000 - 60_000);
    await store.release("held", leaseId);
    expect(await ttlMs("held")).toBeGreaterThan(7 * dayMs - 60_000);
    expect(await ttlMs("held")).toBeLessThanOrEqual(7 * dayMs);
  });

  it("SVC-10 a repeated mark does not extend the retention", async () => {
    await store.markProcessed("k");
    await redis.pexpire(`${prefix}{k}`, 1_000_000);
    await store.markProcessed("k");
    expect(await ttlMs("k")).toBeLessThanOrEqual(1_000_000);
  });

  it("SVC-10 takes the time from the server", async () => {
    const before = await serverMs(redis);
    const result = await store.tryBegin("k", { leaseMs: 45_000 });
    const after = await serverMs(redis);
    const leasedAt = (result as { expiresAt: Date }).expiresAt.getTime() - 45_000;
    expect(leasedAt).toBeGreaterThanOrEqual(before);
    expect(leasedAt).toBeLessThanOrEqual(after);
  });

  it("SVC-10 keeps a key in one Redis key, whose hash tag is the key itself", async () => {
    await acquired("a:b:c:{1}");
    await acquired("plain");
    const names = await redis.keys(`${prefix}*`);
    expect(names.sort()).toEqual([`${prefix}{a:b:c:{1}}`, `${prefix}{plain}`]);
  });

  it("SVC-10 a try-begin whose answer was lost is sent again by the driver, and finds its own lease", async () => {
    const { hostname, port } = new URL(server.url);
    const proxy = await startProxy(hostname, Number(port));
    const own = createRedisInboxStore({ url: `redis://127.0.0.1:${proxy.port}`, prefix });
    try {
      await own.isProcessed("another"); // it is connected
      proxy.cutAfter({ responseBytes: 0 });
      const begun = own.tryBegin("k");
      await proxy.allClosed();
      expect(await store.inspect("k")).toMatchObject({ status: "Leased", attempts: 1 });
      await proxy.mend();
      const { leaseId } = (await begun) as { readonly leaseId: string };
      expect(await store.inspect("k")).toMatchObject({ attempts: 1 });
      expect(await store.finish("k", leaseId)).toEqual({ status: "Processed" });
    } finally {
      await own.close();
      await proxy.cut();
    }
  });
});

const { image, ...ownProgram } = redisServer;
const clusterServer = { ...ownProgram, variable: "ONCEBOX_TEST_REDIS_CLUSTER_URL", run: asCluster };
const startNode = await findServer(clusterServer);

async function asCluster(port: number, folder: string) {
  const { args } = await redisServer.run(port, folder);
  const own = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"];
  return { args: [...args, ...own, "--cluster-port", String(await freePort())] };
}

describe.skipIf(startNode === undefined)(`the inbox store on Redis Cluster (${needs(clusterServer)})`, () => {
  it("SVC-10 runs with a client of a cluster, and spreads keys over its slots", async () => {
    const server = await startNode!();
    const { hostname, port } = new URL(server.url);
    const node = new Redis(server.url);
    await node.call("CLUSTER", "ADDSLOTSRANGE", "0", "16383").catch(() => {}); // a cluster that was given has its slots
    const cluster = new Cluster([{ host: hostname, port: Number(port) }], { clusterRetryStrategy: () => 50 });
    try {
      const store = createRedisInboxStore({ client: cluster });
      for (const key of ["one", "two", "three"]) {
        const begun = await store.tryBegin(key);
        if (begun.status !== "Acquired") throw new Error(begun.status);
        expect(await store.finish(key, begun.leaseId)).toEqual({ status: "Processed" });
      }
      const names = await node.keys("*");
      const slots = await Promise.all(names.map((name) => node.cluster("KEYSLOT", name)));
      expect(new Set(slots).size).toBe(3);
    } finally {
      cluster.disconnect();
      node.disconnect();
      await server.stop();
    }
  });
});

describe("createRedisInboxStore", () => {
  it("refuses bad options, all in one error", () => {
    expect(() => createRedisInboxStore({ retentionMs: 1, timeoutMs: 0, prefix: "" })).toThrow(
      /give url or client; prefix .*; retentionMs .*7 days.*; timeoutMs /,
    );
    expect(() => createRedisInboxStore({ url: "redis://h", ttl: 1 } as never)).toThrow(/unknown option ttl/);
  });

  it("refuses a URL of another kind at the first call, and does not quote it", async () => {
    const store = createRedisInboxStore({ url: "http://user:secret@host" });
    const error = await store.isProcessed("k").catch((one: Error) => one);
    expect(error).toMatchObject({ code: "ONCEBOX_INVALID_ARGUMENT" });
    expect(String(error)).not.toContain("secret");
  });

  it("gives up after timeoutMs where no server answers", async () => {
    const store = createRedisInboxStore({ url: "redis://127.0.0.1:1", timeoutMs: 50 });
    await expect(store.isProcessed("k")).rejects.toThrow(/longer than 50 ms/);
    await store.close();
  });
});

async function serverMs(redis: Redis): Promise<number> {
  const [seconds = 0, micros = 0] = (await redis.time()).map(Number);
  return seconds * 1_000 + Math.floor(micros / 1_000);
}
