import { MongoClient } from "mongodb";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { LeasingInboxStore } from "../../../src/inbox-store/inbox-store.js";
import { createMongoInboxStore } from "../../../src/inbox-store/mongo-inbox-store.js";
import { leasingInboxStoreContract } from "../../contract/inbox-store-contract.js";
import { type MongoPeer, startMongoPeer } from "../../support/servers/mongo-peer.js";
import { clockedStore, unclockedStore } from "../../support/servers/test-stores.js";

leasingInboxStoreContract({
  name: "MongoDB's driver and a peer of its protocol",
  async open() {
    const { url, stop } = await startMongoPeer();
    return clockedStore((clock) => createMongoInboxStore({ url, clock }), stop);
  },
});

leasingInboxStoreContract({
  name: "MongoDB's driver and a peer of its protocol, by the peer's own time",
  async open() {
    const { url, stop } = await startMongoPeer();
    return unclockedStore(() => createMongoInboxStore({ url }), stop);
  },
});

describe("what the MongoDB store sends", () => {
  const dayMs = 24 * 60 * 60 * 1_000;
  let peer: MongoPeer;
  let store: LeasingInboxStore;
  beforeAll(async () => {
    peer = await startMongoPeer();
    store = createMongoInboxStore({ url: peer.url, collection: "keys", retentionMs: 7 * dayMs });
  });
  afterAll(async () => {
    await store.close();
    await peer.stop();
  });

  const documentOf = async (key: string): Promise<Record<string, Date>> => {
    const client = new MongoClient(peer.url);
    const found = await client.db().collection<{ _id: string }>("keys").findOne({ _id: key });
    await client.close();
    return found as unknown as Record<string, Date>;
  };
  const acquired = async (key: string): Promise<string> =>
    ((await store.tryBegin(key)) as { leaseId: string }).leaseId;

  it("SVC-08 SVC-10 creates the index that removes old keys, once, and before the first key", async () => {
    await store.finish("k", await acquired("k"));
    const [first, ...others] = peer.commands;
    expect(first).toMatchObject({
      createIndexes: "keys",
      indexes: [{ key: { expiresAt: 1 }, expireAfterSeconds: 0 }],
    });
    expect(others.filter((command) => "createIndexes" in command)).toEqual([]);
  });

  it("SVC-10 waits for a majority with every write, and reads what a majority has", async () => {
    const leaseId = await acquired("majority");
    await store.renew("majority", leaseId, 60_000);
    await store.release("majority", leaseId);
    await store.markProcessed("majority");
    await store.isProcessed("majority");
    await store.inspect("majority");
    const ownCommands = peer.commands.filter((command) => !("createIndexes" in command));
    expect(ownCommands.length).toBeGreaterThan(5);
    for (const command of ownCommands) {
      if ("findAndModify" in command) expect(command).toMatchObject({ writeConcern: { w: "majority" } });
      else expect(command).toMatchObject({ readConcern: { level: "majority" } });
    }
  });

  it("SVC-10 an upsert that meets another one is sent again", async () => {
    peer.meetOnce();
    expect(await store.tryBegin("met by another")).toMatchObject({ status: "Acquired" });
    peer.meetOnce();
    await store.markProcessed("met, then marked");
    expect(await store.isProcessed("met, then marked")).toBe(true);
  });

  it("SVC-08 SVC-10 a document expires the retention after its key was processed, or its lease has ended", async () => {
    const leaseId = await acquired("expires");
    const leased = await documentOf("expires");
    expect(leased.expiresAt!.getTime() - leased.leaseUntil!.getTime()).toBe(7 * dayMs);
    await store.finish("expires", leaseId);
    const finished = await documentOf("expires");
    expect(finished.expiresAt!.getTime() - finished.processedAt!.getTime()).toBe(7 * dayMs);
  });

  it("SVC-10 an owner that looks like a field is stored as it is", async () => {
    await store.tryBegin("field", { owner: "$$ROOT" });
    expect(await store.inspect("field")).toMatchObject({ owner: "$$ROOT" });
  });

  it("SVC-10 takes a client that is open, and leaves it open", async () => {
    const client = new MongoClient(peer.url);
    const other = createMongoInboxStore({
      client,
      database: "oncebox",
      collection: "keys",
      createIndex: false,
    });
    expect(await other.isProcessed("k")).toBe(true);
    await other.close();
    expect(await client.db().collection("keys").findOne({})).not.toBeNull();
    await client.close();
  });
});
