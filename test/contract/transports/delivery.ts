import { describe, expect, it } from "vitest";
import type { TransportHarness } from "./harness.js";
import { acknowledged, newMessage, start } from "./support.js";

const values: readonly unknown[] = [
  null,
  false,
  0,
  "",
  [],
  {},
  -1.5e-7,
  { nested: [{ deep: [[null, true, "x"]] }] },
  JSON.parse('{"__proto__":{"isAdmin":true},"constructor":1}'),
];

/** Characters that transports and encodings are known to change. */
const texts = [
  "ß 日本語 🚀",
  "\0\u0001\u007f",
  "\u2028\u2029",
  "\ufeffbom",
  '"\\/\r\n\t',
  "e\u0301 \u00e9",
  "\u{10ffff}",
];

export function deliveryTests(harness: TransportHarness): void {
  describe("delivery", () => {
    it("MSG-09 a message arrives with every field, and is acknowledged", async () => {
      const { send, received } = await start(harness, async () => acknowledged);
      const message = newMessage({ sku: "A-1", quantity: 3 });
      expect(await send(message)).toEqual(acknowledged);
      const plain = { ...newMessage(null), messageType: "Signal", correlationId: null, headers: {} } as const;
      expect(await send(plain)).toEqual(acknowledged);
      expect(received).toMatchObject([message, plain]);
    });

    it("MSG-09 payloads and responses of every kind arrive as they were sent", async () => {
      const { send, received } = await start(harness, async ({ payload }) => ({ ...acknowledged, payload }));
      for (const value of [...values, ...texts]) {
        expect(await send(newMessage(value))).toEqual({ ...acknowledged, payload: value });
        expect(received.at(-1)!.payload).toEqual(value);
      }
    });

    it("MSG-09 texts of any language arrive in the endpoint and in headers", async () => {
      const { send, received } = await start(harness, async () => acknowledged);
      const sendable = texts.filter((text) => !/\p{Cc}/u.test(text)); // the protocol allows no control characters there
      const headers = Object.fromEntries(sendable.map((text, index) => [`x-${index}`, text]));
      const message = { ...newMessage(texts), endpoint: "Aufträge-発注", headers };
      expect(await send(message)).toEqual(acknowledged);
      expect(received).toMatchObject([message]);
    });

    it("MSG-09 a duplicate is reported as such, with the response of the first delivery", async () => {
      const seen = new Set<string>();
      const { send } = await start(harness, async ({ messageId }) => {
        const duplicateDetected = seen.has(messageId);
        seen.add(messageId);
        return { acknowledged: true, duplicateDetected, payload: { reserved: 3 } };
      });
      const message = newMessage();
      expect(await send(message)).toEqual({ ...acknowledged, payload: { reserved: 3 } });
      expect(await send(message)).toEqual({
        acknowledged: true,
        duplicateDetected: true,
        payload: { reserved: 3 },
      });
    });

    it("MSG-09 each of two hundred concurrent messages arrives once and gets its own response", async () => {
      const { send, received } = await start(harness, async ({ payload }) => ({ ...acknowledged, payload }));
      const messages = Array.from({ length: 200 }, (_, n) => newMessage({ n }));
      const responses = await Promise.all(messages.map((message) => send(message)));
      expect(responses.map(({ payload }) => payload)).toEqual(messages.map(({ payload }) => payload));
      expect(new Set(received.map(({ messageId }) => messageId)).size).toBe(200);
      expect(received).toHaveLength(200);
    });

    it("MSG-09 a payload and a response of 2 MB arrive whole", async () => {
      const { send, received } = await start(harness, async ({ payload }) => ({ ...acknowledged, payload }));
      const payload = { text: "0123456789abcdef".repeat(131_072) };
      expect((await send(newMessage(payload))).payload).toEqual(payload);
      expect(received[0]!.payload).toEqual(payload);
    });

    it("MSG-09 sender and receiver share no object: neither can change the other's payload or response", async () => {
      const kept = { reserved: [1] };
      const { send } = await start(harness, async ({ payload }) => {
        (payload as { items: number[] }).items.push(2);
        return { ...acknowledged, payload: kept };
      });
      const payload = { items: [1] };
      const response = await send(newMessage(payload));
      (response.payload as typeof kept).reserved.push(2);
      expect(payload).toEqual({ items: [1] });
      expect(kept).toEqual({ reserved: [1] });
    });
  });
}
