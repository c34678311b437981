import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import { fieldsOf } from "../support/recording-logger.js";
import { type InboxContext, keyOf } from "./support.js";

/** What deduplication logs. */
export function observabilityTests(context: InboxContext): void {
  describe("observability: inbox only", () => {
    it("IBX-107 logs every deduplication check at debug, with the key and the result", async () => {
      const { inbox, logs } = await context.freshInbox();
      const key = keyOf(context.message());
      await inbox.alreadyProcessed(key);
      await inbox.alreadyProcessed(key);
      await inbox.markProcessed(key);
      await inbox.alreadyProcessed(key);
      const checks = fieldsOf(logs, "debug", "already processed?");
      expect(checks).toMatchObject([false, false, true].map((processed) => ({ ...key, processed })));
      expect(logs.filter((line) => line.level === "warn")).toEqual([]);
    });

    it("IBX-108 logs every enqueued message at info, with topic, source, id and outcome", async () => {
      const { inbox, logs } = await context.freshInbox();
      const [a, b, c] = context.messages(3);
      await inbox.receive(a!);
      await inbox.enqueue([b!, c!, a!]);
      const fields = ({ topic, source, messageId }: typeof a & object) => ({ topic, source, messageId });
      expect(fieldsOf(logs, "info", "enqueue")).toMatchObject([
        { ...fields(a!), outcome: "enqueued" },
        { ...fields(b!), outcome: "enqueued" },
        { ...fields(c!), outcome: "enqueued" },
        { ...fields(a!), outcome: "duplicate" },
      ]);
    });

    it("IBX-113 a line about other content names the store", async () => {
      const { inbox, logs } = await context.freshInbox({ id: "tenant-7" });
      const hash = (byte: number) => new Uint8Array([byte]);
      await inbox.receive(context.message({ messageId: "same", hash: hash(1) }));
      await inbox.receive(context.message({ messageId: "same", hash: hash(2) }));
      await inbox.alreadyProcessed({ source: "test", messageId: "same" }, hash(3));
      expect(logs.filter((line) => line.level === "warn")).toHaveLength(2);
      for (const line of logs) expect(line.fields.store, line.message).toBe("tenant-7");
    });

    it("IBX-127 no payload and no header is logged when a message arrives again, with other content or is marked", async () => {
      const secret = "4111-1111-1111-1111";
      const { inbox, logs } = await context.freshInbox();
      const first = context.message({ payload: secret, headers: { authorization: secret } });
      const hash = (byte: number) => new Uint8Array([byte]);
      await inbox.receive({ ...first, hash: hash(1) });
      await inbox.receive({ ...first, hash: hash(1) });
      expect(await inbox.receive({ ...first, hash: hash(2) })).toBe("conflict");
      await inbox.alreadyProcessed(keyOf(first), hash(3));
      await inbox.markProcessed(keyOf(first));
      const error = await inbox.receive({ ...first, hash: secret as never }).catch((thrown: Error) => thrown);
      expect(error).toBeInstanceOf(InvalidArgumentError);
      expect(String(error)).not.toContain(secret);
      expect(logs.length).toBeGreaterThan(4);
      expect(JSON.stringify(logs)).not.toContain(secret);
    });
  });
}
