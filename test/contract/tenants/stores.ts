import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { InvalidArgumentError, InvalidOperationError } from "../../../src/errors.js";
import type { Tenant } from "../../../src/tenants/tenant.js";
import type { TestDatabase } from "../harness.js";
import { type TestTenants, testTenants } from "./support.js";

const message = (messageId: string) => ({ source: "test", messageId, topic: "t", payload: "" });
const guid = "3F2504E0-4F89-41D3-9A0C-0305E82C3301";

/** A list that tests change, and the number of calls for it. */
function source(...tenants: Tenant[]) {
  const found = { tenants, asked: 0 };
  const discover = async () => {
    found.asked++;
    return found.tenants;
  };
  return Object.assign(found, { discover });
}

/** Each tenant has an inbox and an outbox, which come and go with it. */
export function tenantStoreTests(database: () => TestDatabase): void {
  describe("stores", () => {
    let made: TestTenants;
    const tenant: TestTenants["tenant"] = (...names) => made.tenant(...names);
    beforeAll(() => {
      made = testTenants(database());
    });
    afterAll(() => made.close());

    it("IBX-085 IBX-091 OBX-066 OBX-072 each tenant's inbox and outbox are its own", async () => {
      const { discover } = source(await tenant("own1"), await tenant("own2"));
      const tenants = made.stores({ discover });
      await (await tenants.inbox("own1")).receive(message("1"));
      await (await tenants.outbox("own2")).enqueue({ topic: "t", payload: "" });
      const counts = async (id: string) => {
        const { inbox, outbox } = await tenants.stores(id);
        return [(await inbox.stats()).due, (await outbox.stats()).due];
      };
      expect(await counts("own1")).toEqual([1, 0]);
      expect(await counts("own2")).toEqual([0, 1]);
    });

    it("IBX-089 IBX-123 OBX-070 OBX-102 stores have the tenant's identifier and are made once", async () => {
      const tenants = made.stores({ discover: source(await tenant("own1")).discover });
      const inbox = await tenants.inbox("own1");
      expect(inbox.id).toBe("own1");
      expect((await tenants.outbox("own1")).id).toBe("own1");
      await tenants.refresh();
      expect(await tenants.inbox("own1")).toBe(inbox);
    });

    it("OBX-074 a GUID is the same key in any case, and other keys are case-sensitive", async () => {
      const { discover } = source(await tenant(guid, "own1"), await tenant("Own2", "own2"));
      const tenants = made.stores({ discover });
      const inbox = await tenants.inbox(guid);
      expect(inbox.id).toBe(guid.toLowerCase());
      expect(await tenants.inbox(guid.toLowerCase())).toBe(inbox);
      expect((await tenants.outbox("Own2")).id).toBe("Own2");
      await expect(tenants.outbox("own2")).rejects.toThrow(InvalidOperationError);
    });

    it("IBX-092 OBX-073 an unknown key is an InvalidOperationError after the list was refreshed once", async () => {
      const list = source(await tenant("own1"));
      const tenants = made.stores({ discover: list.discover });
      await tenants.inbox("own1");
      await expect(tenants.inbox("nobody")).rejects.toThrow(InvalidOperationError);
      await expect(tenants.outbox("nobody")).rejects.toThrow(/"nobody"/);
      expect(list.asked).toBe(3);
      list.tenants = [...list.tenants, await tenant("nobody", "own2")];
      expect((await tenants.inbox("nobody")).id).toBe("nobody");
      for (const key of ["", " ", 1, null, undefined])
        await expect(tenants.inbox(key as string)).rejects.toThrow(InvalidArgumentError);
    });

    it("IBX-093 IBX-094 OBX-075 OBX-076 FUN-08 the list is refreshed after five minutes", async () => {
      let nowMs = 0;
      const list = source(await tenant("own1"));
      const tenants = made.stores({ discover: list.discover, now: () => nowMs });
      await tenants.list();
      nowMs = 299_999;
      await tenants.list();
      expect(list.asked).toBe(1);
      nowMs = 300_000;
      list.tenants = [...list.tenants, await tenant("own2")];
      expect(await tenants.list()).toEqual(["own1", "own2"]);
      expect(list.asked).toBe(2);
    });

    it("IBX-095 IBX-096 IBX-097 OBX-077 OBX-078 OBX-079 new tenants get stores, removed tenants lose them, unchanged tenants keep them", async () => {
      const [one, two, other] = [await tenant("own1"), await tenant("own2"), await tenant("own3")];
      const list = source(one, two);
      const tenants = made.stores({ discover: list.discover });
      const kept = await tenants.stores("own1");
      await (await tenants.inbox("own2")).stats();
      list.tenants = [one, other];
      await tenants.refresh();
      expect(await tenants.stores("own1")).toBe(kept);
      await expect(tenants.stores("own2")).rejects.toThrow(InvalidOperationError);
      expect((await (await tenants.inbox("own3")).stats()).due).toBe(0);
    });

    it("IBX-096 OBX-078 the running work of a removed tenant ends, and then its connections", async () => {
      const list = source(await tenant("gone"));
      const tenants = made.stores({ discover: list.discover });
      const { inbox, outbox } = await tenants.stores("gone");
      await inbox.transaction(async (tx) => {
        list.tenants = [];
        await tenants.refresh();
        expect(await tenants.list()).toEqual([]);
        await outbox.enqueue({ topic: "t", payload: "" }, { tx });
      });
      await expect.poll(() => tenants.connections.taken() + tenants.connections.openFiles()).toBe(0);
      // A caller that still holds its stores loses no work.
      expect((await outbox.stats()).due).toBe(1);
    });

    it("IBX-097 OBX-079 FUN-08 after a tenant moved, new calls use the new tables, and running ones the old", async () => {
      const list = source(await tenant("moves", "before"));
      const tenants = made.stores({ discover: list.discover });
      const before = await tenants.stores("moves");
      const moved = await tenant("moves", "after");
      await before.inbox.transaction(async (tx) => {
        list.tenants = [moved];
        await tenants.refresh();
        await before.outbox.enqueue({ topic: "t", payload: "" }, { tx });
      });
      await (await tenants.inbox("moves")).receive(message("new"));
      expect(await (await tenants.inbox("moves")).get(message("new"))).not.toBeNull();
      expect(await before.inbox.get(message("new"))).toBeNull();
      expect((await before.outbox.stats()).due).toBe(1);
    });
  });
}
