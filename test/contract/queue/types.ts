import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import type { QueueContext } from "./support.js";

/** The type of a message, beside its topic. */
export function typeTests({ kind, queue, database }: QueueContext): void {
  describe("the type of a message", () => {
    const type = "com.example.invoice.paid.v2";

    it("MID-12 is in claims, reads, lists and the view; without one of its own it is the topic", async () => {
      const { store, owner, stored, view } = await queue();
      const own = await store.addOne({ topic: "a", type, payload: "0" });
      const [many, none] = await store.add([
        { topic: "b", type, payload: "1" },
        { topic: "c", payload: "2" },
      ]);
      for (const [key, shown] of [
        [own, type],
        [many!, type],
        [none!, "c"],
      ] as const)
        expect((await stored(key)).type).toBe(shown);
      expect((await store.list({})).messages.map((message) => message.type).sort()).toEqual([
        "c",
        type,
        type,
      ]);
      expect((await view()).map(({ Topic, Type }) => [Topic, Type])).toEqual([
        ["a", type],
        ["b", type],
        ["c", "c"],
      ]);
      const claimed = await store.claim({ owner });
      expect(claimed.map((message) => [message.topic, message.type]).sort()).toEqual([
        ["a", type],
        ["b", type],
        ["c", "c"],
      ]);
    });

    it("MID-12 the topic as a type, and a type of null, take no room", async () => {
      const { store, stored, names } = await queue();
      const keys = await store.add([
        { topic: "a", type: "a", payload: "" },
        { topic: "a", type: null, payload: "" },
      ]);
      for (const key of keys) expect((await stored(key)).type).toBe("a");
      const rows = await database().raw(`select type as own from ${names.message}`);
      expect(rows.map(({ own }) => own)).toEqual([null, null]);
    });

    it("MID-12 stays with a dead message through a replay, an edit and the archive", async () => {
      const { store, owner, held, names } = await queue();
      const by = { by: "alice" };
      const [message] = await held(1, { topic: "a", type });
      await store.fail(owner, [message!], "no");
      await store.operators.replay([message!], by);
      const [again] = await store.claim({ owner });
      expect(again!.type).toBe(type);
      await store.fail(owner, [again!], "no");
      await store.editAndReplay(again!, { topic: "b", payload: "edited" }, by);
      const [edited] = await store.claim({ owner });
      expect(edited).toMatchObject({ topic: "b", type, payload: "edited" });

      await store.fail(owner, [edited!], "no");
      await store.archive([edited!], by);
      const archive = names.object(database().db.dialect.name === "postgres" ? "_archive" : "Archive");
      const rows = await database().raw(`select type as type from ${archive}`);
      expect(rows.map((row) => row.type)).toEqual([type, type]);
    });

    it("MID-12 an edit of the topic is one of the type, where it was the topic", async () => {
      const { store, owner, held } = await queue();
      const [message] = await held(1, { topic: "a" });
      await store.fail(owner, [message!], "no");
      await store.editAndReplay(message!, { topic: "b" }, { by: "alice" });
      expect((await store.claim({ owner }))[0]).toMatchObject({ topic: "b", type: "b" });
    });

    it.each(["", "ends with a space ", "x".repeat(256), "nul \0", 7 as unknown as string])(
      "MID-12 refuses %j, and stores nothing",
      async (bad) => {
        const { store } = await queue();
        const one = { topic: "a", type: bad, payload: "" };
        await expect(store.addOne(one)).rejects.toBeInstanceOf(InvalidArgumentError);
        await expect(store.add([one])).rejects.toThrow(/^type /);
        expect((await store.list({})).messages).toEqual([]);
      },
    );

    if (kind === "inbox")
      it("MID-12 a redelivery of an unfinished message brings its newer type", async () => {
        const { store, stored } = await queue();
        const key = { source: "stripe", messageId: "evt_1" };
        const inbox = store as unknown as { receive(message: object): Promise<string> };
        const message = { ...key, topic: "a", payload: "p" };
        expect(await inbox.receive({ ...message, type: "first" })).toBe("enqueued");
        expect(await inbox.receive({ ...message, type: "first" })).toBe("duplicate");
        expect(await inbox.receive({ ...message, type: "second" })).toBe("duplicate");
        expect(await stored(key)).toMatchObject({ type: "second", deliveries: 3 });
        expect(await inbox.receive(message)).toBe("duplicate");
        expect((await stored(key)).type).toBe("a");
      });
  });
}
