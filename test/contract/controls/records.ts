import { describe, expect, it } from "vitest";
import { messages, type QueueContext } from "../queue/support.js";

/** Who paused or limited which messages, and who ended it. */
export function controlRecordTests({ queue, database }: QueueContext): void {
  describe("records of pauses and limits", () => {
    it("ADD-02 ADD-17 setting and ending a pause or a limit is recorded, with who and when", async () => {
      const { store, clock } = await queue();
      const start = clock();
      const later = (seconds: number) => new Date(start.getTime() + seconds * 1_000);
      const steps: readonly (() => Promise<unknown>)[] = [
        () => store.pause({ topic: "mail" }, { by: "alice" }),
        () => store.limit({ perSecond: 2 }, { by: "bob" }),
        () => store.limit({ topic: "mail", perSecond: 0.5 }, { by: "bob" }),
        () => store.resume({ topic: "mail" }, { by: "carol" }),
        () => store.limit({ topic: "mail", perSecond: null }, { by: "dave" }),
        () => store.pause("all", { by: "alice" }),
        () => store.resume("all", { by: "alice" }),
      ];
      for (const step of steps) {
        await step();
        clock.advance(1_000);
      }
      const found = (await store.operations()).map(({ action, by, at, endedAt, filter, matched, done }) => {
        expect(endedAt).toEqual(at);
        expect([matched, done]).toEqual([0, 0]);
        return [action, by, at, filter];
      });
      expect(found.reverse()).toEqual([
        ["pause", "alice", later(0), { topic: "mail" }],
        ["limit", "bob", later(1), { perSecond: 2 }],
        ["limit", "bob", later(2), { topic: "mail", perSecond: 0.5 }],
        ["resume", "carol", later(3), { topic: "mail" }],
        ["limit", "dave", later(4), { topic: "mail", perSecond: null }],
        ["pause", "alice", later(5), {}],
        ["resume", "alice", later(6), {}],
      ]);
    });

    it("ADD-02 ADD-17 a call that ends nothing is not recorded, and a record of a control cannot be continued", async () => {
      const { store } = await queue();
      expect(await store.resume({ topic: "mail" }, { by: "alice" })).toMatchObject({ wasPaused: false });
      expect(await store.limit({ topic: "mail", perSecond: null }, { by: "alice" })).toBeNull();
      expect(await store.operations()).toEqual([]);
      await store.pause({ topic: "mail" }, { by: "alice" });
      const [{ id } = { id: "" }] = await store.operations();
      await expect(store.continueOperation(id)).rejects.toThrow("could be continued");
    });

    it("ADD-02 ADD-17 a pause and its record are one transaction", async () => {
      const { store, on, owner } = await queue();
      await store.add(messages(1));
      const { db } = database();
      const failing = on({
        ...db,
        driver: {
          ...db.driver,
          transaction: (work, options) =>
            db.driver.transaction(
              (tx) =>
                work({
                  ...tx,
                  query: (statement, params, call) =>
                    statement.name === "move operation"
                      ? Promise.reject(new Error("cut off"))
                      : tx.query(statement, params, call),
                }),
              options,
            ),
        },
      });
      await expect(failing.pause("all", { by: "alice" })).rejects.toThrow("cut off");
      expect(await store.controls()).toEqual([]);
      expect(await store.operations()).toEqual([]);
      expect(await store.claim({ owner })).toHaveLength(1);
    });
  });
}
