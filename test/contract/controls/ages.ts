import { describe, expect, it } from "vitest";
import { type AnyMessage, claimAll, messages, type QueueContext, type TestQueue } from "../queue/support.js";

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
