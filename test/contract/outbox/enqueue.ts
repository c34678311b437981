import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import type { OutgoingMessage } from "../../../src/outbox/enqueue.js";
import { fieldsOf } from "../support/recording-logger.js";
import { numbered, type OutboxContext, stored } from "./support.js";

const guid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
/** For what TypeScript would not let through. */
const anything = (value: unknown) => value as OutgoingMessage;

/** The ids, the data and the log lines of outgoing messages. */
export function enqueueTests({ box }: OutboxContext): void {
  describe("enqueue: outbox only", () => {
    it("OBX-004 a message that is no object, or an empty one, is refused, and nothing is stored", async () => {
      const { outbox } = await box();
      for (const nothing of [null, undefined, {}]) {
        const call = async () => outbox.enqueue(anything(nothing));
        await expect(call).rejects.toBeInstanceOf(InvalidArgumentError);
      }
      expect((await outbox.list()).messages).toEqual([]);
    });

    it("ADD-13 data is stored as JSON text; data that JSON cannot represent and data beside a payload are refused", async () => {
      const { outbox } = await box();
      const data = { id: 7, text: "grün 🌱", list: [null, { deep: true }] };
      const id = await outbox.enqueue({ topic: "t", data });
      const message = await stored(outbox, { id });
      expect(message.payload).toBe(JSON.stringify(data));
      expect(message.data).toEqual(data);
      const circular: { self?: unknown } = {};
      circular.self = circular;
      const wrong = [
        { data: undefined },
        { data: () => 1 },
        { data: 1n },
        { data: circular },
        { data, payload: "{}" },
      ];
      for (const one of wrong)
        await expect(async () => outbox.enqueue(anything({ topic: "t", ...one }))).rejects.toBeInstanceOf(
          InvalidArgumentError,
        );
      expect((await outbox.list()).messages).toHaveLength(1);
    });

    it("OBX-014 returns an id of its own for every message, in the order of the messages", async () => {
      const { outbox } = await box();
      const ids = [...(await outbox.enqueue(numbered(200)))];
      for (let n = 0; n < 20; n++) ids.push(await outbox.enqueue({ topic: "t", payload: "single" }));

      expect(new Set(ids).size).toBe(220);
      for (const id of ids) expect(id).toMatch(guid);
      expect((await stored(outbox, { id: ids[0]! })).payload).toBe("000");
      expect((await stored(outbox, { id: ids[199]! })).payload).toBe("199");
    });

    it("OBX-014 gives every message a messageId unless the caller provides one", async () => {
      const { outbox } = await box();
      const messageId = "6F9619FF-8B86-D011-B42D-00C04FC964FF";
      const [first, second] = await outbox.enqueue(numbered(2));
      const own = await outbox.enqueue({ topic: "t", payload: "", messageId });
      const madeUp = [await stored(outbox, { id: first! }), await stored(outbox, { id: second! })];

      expect(madeUp[0]!.messageId).toMatch(guid);
      expect(madeUp[0]!.messageId).not.toBe(madeUp[1]!.messageId);
      expect((await stored(outbox, { id: own })).messageId).toBe(messageId.toLowerCase());
      for (const wrong of ["", "order-7", 7]) {
        const call = async () => outbox.enqueue(anything({ topic: "t", payload: "", messageId: wrong }));
        await expect(call).rejects.toBeInstanceOf(InvalidArgumentError);
      }
    });

    it("OBX-085 logs every enqueued message with its correlation id", async () => {
      const { outbox, log } = await box();
      const id = await outbox.enqueue({ topic: "a", payload: "x", correlationId: "c-1" });
      const ids = await outbox.enqueue([{ topic: "b", payload: "x", correlationId: "c-2" }, ...numbered(1)]);
      expect(fieldsOf(log, "info", "enqueue")).toMatchObject([
        { topic: "a", correlationId: "c-1", id },
        { topic: "b", correlationId: "c-2", id: ids[0] },
        { topic: "test", correlationId: null, id: ids[1] },
      ]);
    });
  });
}
