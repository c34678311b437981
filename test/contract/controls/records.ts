import { describe, expect, it } from "vitest";
import { type AnyMessage, claimAll, messages, type QueueContext, type TestQueue } from "../queue/support.js";

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

const by = { by: "alice" };
const minute = 60_000;

/** Makes a message due, 5 minutes before the pause. */
type Situation = (made: TestQueue) => Promise<unknown>;

const failed = async ({ store, owner, held }: TestQueue): Promise<AnyMessage> => {
  const [message] = await held(1);
  await store.fail(owner, [message!], "410");
  return message!;
};

const situations: Readonly<Record<string, Situation>> = {
  "has never been claimed": ({ store }) => store.add(messages(1)),
  "had a due time": async ({ store, clock }) => {
    await store.add(messages(1, { dueAt: new Date(clock().getTime() + minute) }));
    clock.advance(minute);
  },
  "was abandoned": async ({ store, owner, clock, held }) => {
    await store.abandon(owner, await held(1), { delayMs: minute, error: "503" });
    clock.advance(minute);
  },
  "was replayed long after it came": async (made) => {
    const dead = await failed(made);
    made.clock.advance(60 * minute);
    await made.store.replay([dead]);
  },
  "was released": async ({ store, owner, held }) => store.release(owner, await held(1)),
};

/** How long the oldest message has been due: the same on every database, whatever happens to a message. */
export function controlAgeTests({ queue }: QueueContext): void {
  describe("ages under pauses and limits", () => {
    it.each(Object.keys(situations))(
      "ADD-02 ADD-17 a pause does not change the age of a message that %s",
      async (name) => {
        const made = await queue();
        const { store, owner, clock } = made;
        const ages = async () => {
          const [exact, counted] = [await store.oldestDueAgeMs(), (await store.stats()).oldestDueAgeMs];
          expect(exact).toBe(counted);
          return exact;
        };
        await situations[name]!(made);
        expect(await ages()).toBe(0);
        clock.advance(5 * minute);
        expect(await ages()).toBe(5 * minute);
        for (let round = 1; round <= 2; round++) {
          await store.pause({ topic: "test" }, by);
          expect(await ages()).toBeNull();
          expect(await store.claim({ owner })).toEqual([]);
          clock.advance(minute);
          expect(await ages()).toBeNull();
          await store.resume({ topic: "test" }, by);
          expect(await ages()).toBe((5 + round) * minute);
        }
        await store.limit({ topic: "test", perSecond: 1 }, by);
        const [claimed] = await claimAll(store, owner);
        await store.release(owner, [claimed!]);
        expect(await ages()).toBe(7 * minute);
      },
    );

    it("ADD-02 ADD-17 a pause does not change the age of a message whose lease was lost", async () => {
      const { store, owner, clock, held } = await queue();
      await held(1);
      clock.advance(60 * minute);
      const age = (await store.oldestDueAgeMs())!; // since the end of the lease and the back-off after it
      expect(age).toBeGreaterThan(50 * minute);
      expect(age).toBeLessThan(60 * minute);
      await store.pause({ topic: "test" }, by);
      expect(await store.claim({ owner })).toEqual([]);
      clock.advance(minute);
      await store.resume({ topic: "test" }, by);
      expect(await store.oldestDueAgeMs()).toBe(age + minute);
      await store.release(owner, await store.claim({ owner }));
      expect(await store.oldestDueAgeMs()).toBe(age + minute);
    });
  });
}
