import { describe, expect, it } from "vitest";
import type { QueueContext, TestQueue } from "./support.js";

/** The view shows the phases of messages, in the words of `stats`. */
export function viewTests({ queue }: QueueContext): void {
  /** The phase of each message, by its topic. They add up to the phases of `stats`. */
  const shown = async ({ store, view }: TestQueue): Promise<Readonly<Record<string, unknown>>> => {
    const rows = await view();
    const { phases } = await store.stats();
    expect(Object.values(phases).reduce((sum, count) => sum + count, 0)).toBe(rows.length);
    for (const [phase, count] of Object.entries(phases))
      expect(
        rows.filter(({ Phase }) => Phase === phase),
        phase,
      ).toHaveLength(count);
    return Object.fromEntries(rows.map(({ Topic, Phase }) => [Topic, Phase]));
  };

  describe("the view", () => {
    it("IBX-117 OBX-094 ADD-02 ADD-17 has each message in the phase that stats counts it in, before, during and after a pause", async () => {
      const made = await queue();
      const { store, owner, clock, held } = made;
      const [done] = await held(1, { topic: "a-done" });
      const [dead] = await held(1, { topic: "b-dead" });
      const retried = [...(await held(1, { topic: "c-tried" })), ...(await held(1, { topic: "d-mail" }))];
      await store.ack(owner, [done!]);
      await store.fail(owner, [dead!], "no");
      await store.abandon(owner, retried, { delayMs: 3_600_000 });
      await held(1, { topic: "e-leased" });
      await store.addOne({ topic: "f-new", payload: "" });
      await store.addOne({ topic: "g-later", payload: "", dueAt: new Date(clock().getTime() + 60_000) });
      const ended = { "a-done": "done", "b-dead": "dead", "e-leased": "running" };
      const before = {
        "c-tried": "retrying",
        "d-mail": "retrying",
        "f-new": "waiting",
        "g-later": "waiting",
      };
      expect(await shown(made)).toEqual({ ...ended, ...before });
      await store.pause({ topic: "d-mail" }, { by: "alice" });
      expect(await shown(made)).toEqual({ ...ended, ...before, "d-mail": "paused" });
      await store.pause("all", { by: "alice" });
      const paused = Object.fromEntries(Object.keys(before).map((topic) => [topic, "paused"]));
      expect(await shown(made)).toEqual({ ...ended, ...paused });
      await store.resume("all", { by: "alice" });
      await store.resume({ topic: "d-mail" }, { by: "alice" });
      await store.limit({ topic: "f-new", perSecond: 1 }, { by: "alice" }); // a limit pauses nothing
      expect(await shown(made)).toEqual({ ...ended, ...before });
    });

    it("IBX-117 OBX-094 a lease that has expired is running until a claim or the reaper ends it; then it retries", async () => {
      const made = await queue();
      await made.held(1, { topic: "lost" });
      made.clock.advance(3_600_000);
      expect(await shown(made)).toEqual({ lost: "running" });
      await made.store.reapExpired();
      expect(await shown(made)).toEqual({ lost: "retrying" });
    });
  });
}
