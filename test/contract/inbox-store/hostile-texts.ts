import { describe, expect, it } from "vitest";
import type { StoreContext, TestLeasingStore } from "./harness.js";

/** What ends a string, a key or a script of some store, names a field of it, or is an operator of its queries. */
const hostileTexts: readonly string[] = [
  "'; drop table Inbox; --",
  "' or '1'='1",
  '" or ""="',
  "%",
  "_",
  "*",
  "a:b",
  "a:b:",
  ":",
  "{",
  "}",
  "{}",
  "{a}{b}",
  "}:{",
  "..",
  "a/../b",
  "%2e%2e%2f",
  "?a=1#b",
  "$gt",
  "$ne",
  '{"$gt":""}',
  '{"$ne":null}',
  "$$ROOT",
  "$$NOW",
  "$processedAt",
  "$literal",
  "processedAt",
  "_id",
  "__proto__",
  "constructor",
  "') return 1 --",
  "\"..redis.call('FLUSHALL')..\"",
  "') redis.call('FLUSHALL') --",
  "KEYS[1]",
  "ARGV[1]",
  "1e309",
  "-0",
  "null",
  "undefined",
  "\u202e\u200b",
  "\ud83d\ude00",
];

/** What JavaScript may give in place of a text. */
const noTexts: readonly unknown[] = [
  { $gt: "" },
  { $ne: null },
  { toString: () => "k" },
  ["k"],
  new String("k"),
  Buffer.from("k"),
  /k/,
  0,
  true,
  null,
  undefined,
  () => "k",
];

const controls = ["a\0", "\0", "a\r\nFLUSHALL\r\nb", "a\nb", "\u0085"];

/** Keys, owners and lease ids are texts to a store, whatever they are made of. */
export function hostileTextTests({ opened, newKey }: StoreContext<TestLeasingStore>): void {
  describe("hostile texts", () => {
    it("SVC-01 SVC-02 SVC-03 a hostile key is a key of its own, and touches no other", async () => {
      const { store } = opened();
      const prefix = newKey();
      const keys = hostileTexts.map((text) => `${prefix}${text}`);
      for (const [index, key] of keys.entries()) {
        const begun = await store.tryBegin(key);
        expect(begun.status, key).toBe("Acquired");
        for (const other of keys.slice(index + 1))
          if (index % 8 === 0) expect((await store.inspect(other)).status, other).toBe("Unknown");
        const { leaseId } = begun as { leaseId: string };
        expect(await store.finish(key, leaseId), key).toEqual({ status: "Processed" });
      }
      for (const key of keys) expect(await store.isProcessed(key), key).toBe(true);
      expect(await store.isProcessed(prefix)).toBe(false);
    });

    it("SVC-03 a hostile owner is shown as it is", async () => {
      const { store } = opened();
      for (const owner of hostileTexts) {
        const key = newKey();
        await store.tryBegin(key, { owner });
        expect(await store.inspect(key), owner).toMatchObject({ status: "Leased", owner });
      }
    });

    it("SVC-03 a hostile lease id holds nothing", async () => {
      const { store } = opened();
      const [held, free, done] = [newKey(), newKey(), newKey()];
      await store.tryBegin(held);
      await store.markProcessed(done);
      for (const leaseId of hostileTexts)
        for (const key of [held, free, done]) {
          const lost = { status: "LeaseLost" };
          expect(await store.renew(key, leaseId, 60_000), leaseId).toEqual(lost);
          expect(await store.finish(key, leaseId), leaseId).toEqual(lost);
          expect(await store.release(key, leaseId), leaseId).toEqual(lost);
        }
      expect((await store.inspect(held)).status).toBe("Leased");
      expect((await store.inspect(free)).status).toBe("Unknown");
    });

    it("SVC-01 SVC-03 what is no text, or has control characters, is refused as key, owner and lease id", async () => {
      const { store } = opened();
      const key = newKey();
      const refused = { code: "ONCEBOX_INVALID_ARGUMENT" };
      for (const text of [...noTexts, ...controls] as string[]) {
        const what = String(text);
        await expect(store.isProcessed(text), what).rejects.toMatchObject(refused);
        await expect(store.markProcessed(text), what).rejects.toMatchObject(refused);
        await expect(store.tryBegin(text), what).rejects.toMatchObject(refused);
        await expect(store.inspect(text), what).rejects.toMatchObject(refused);
        if (text !== undefined && text !== null)
          await expect(store.tryBegin(key, { owner: text }), what).rejects.toMatchObject(refused);
        if (typeof text === "string") continue;
        for (const call of [store.finish, store.release])
          await expect(call(key, text), what).rejects.toMatchObject(refused);
        await expect(store.renew(key, text, 60_000), what).rejects.toMatchObject(refused);
      }
      expect(await store.inspect(key)).toEqual({ status: "Unknown" });
    });
  });
}
