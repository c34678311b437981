import { describe, expect, it } from "vitest";
import type { StoreContext, TestInboxStore } from "./harness.js";

/** What every inbox store does: it remembers which keys were processed. */
export function processedTests({ opened, newKey }: StoreContext<TestInboxStore>): void {
  describe("processed keys", () => {
    it("SVC-01 a key is processed from markProcessed on, for every store on the same keys", async () => {
      const { store, reopen } = opened();
      const key = newKey();
      expect(await store.isProcessed(key)).toBe(false);
      await store.markProcessed(key);
      expect(await store.isProcessed(key)).toBe(true);
      expect(await (await reopen()).isProcessed(key)).toBe(true);
    });

    it("SVC-01 markProcessed may be repeated and called concurrently", async () => {
      const { store, reopen } = opened();
      const another = await reopen();
      const key = newKey();
      await Promise.all(
        Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? store : another).markProcessed(key)),
      );
      await store.markProcessed(key);
      expect(await store.isProcessed(key)).toBe(true);
    });

    it("SVC-01 keys are compared character by character", async () => {
      const { store } = opened();
      const base = newKey();
      await store.markProcessed(`${base}:Straße/é`);
      for (const other of ["straße/é", "STRASSE/é", "Straße/e\u0301", "Straße/e", "Straße/é/", "Straße/é%"]) {
        expect(await store.isProcessed(`${base}:${other}`), other).toBe(false);
      }
      expect(await store.isProcessed(`${base}:Straße/é`)).toBe(true);
    });

    it("SVC-01 keys of 1 to 255 printable characters are stored as they are", async () => {
      const { store } = opened();
      const long = newKey().padEnd(254, "x");
      for (const key of ["k", `${long}a`, `${newKey()} {}[]"'\`\\/?#&%=+;:,.<>|~^*$€🎉`]) {
        await store.markProcessed(key);
        expect(await store.isProcessed(key), key).toBe(true);
      }
      expect(await store.isProcessed(`${long}b`)).toBe(false);
    });

    it.each(["isProcessed", "markProcessed"] as const)(
      "SVC-01 %s refuses an invalid key by name",
      async (method) => {
        const { store } = opened();
        for (const key of badKeys(newKey())) {
          const refused = expect(store[method](key as string), JSON.stringify(key));
          await refused.rejects.toMatchObject({ code: "ONCEBOX_INVALID_ARGUMENT", message: /\bkey\b/ });
        }
      },
    );

    it("SVC-01 a call whose signal is aborted is rejected with the signal's reason, and marks nothing", async () => {
      const { store } = opened();
      const key = newKey();
      const reason = new Error("the function's time is over");
      const options = { signal: AbortSignal.abort(reason) };
      await expect(store.markProcessed(key, options)).rejects.toBe(reason);
      await expect(store.isProcessed(key, options)).rejects.toBe(reason);
      expect(await store.isProcessed(key)).toBe(false);
    });
  });
}

/** Keys that every store refuses: empty, too long, control characters, a trailing space, broken Unicode, no text. */
export const badKeys = (key: string): readonly unknown[] => [
  "",
  key.padEnd(256, "x"),
  `${key}\0`,
  `${key}\n${key}`,
  `${key}\u007f`,
  `${key}\u0085`,
  `${key} `,
  `${key}\ud83c`,
  7,
  null,
  undefined,
];
