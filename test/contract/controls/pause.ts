import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import type { ControlTarget } from "../../../src/queue/operators.js";
import { reasons } from "../../../src/sql/dead-letters.js";
import { skipUnless } from "../harness.js";
import { type AnyMessage, claimAll, messages, type QueueContext } from "../queue/support.js";
import { watched } from "../support/watched.js";

const by = { by: "alice" };
const topics = (claimed: readonly AnyMessage[]) => claimed.map(({ topic }) => topic);
const payloads = (claimed: readonly AnyMessage[]) => claimed.map(({ payload }) => payload);

/** Pausing and resuming. */
export function pauseTests(context: QueueContext): void {
  const { kind, queue, ids, keyOf, states, database } = context;

  describe("pause", () => {
    it("ADD-17 only a paused topic is not claimed; after resume its messages come in their order", async () => {
      const { store, owner, stored, clock } = await queue();
      const keys = await store.add([...messages(3, { topic: "mail" }), { topic: "other", payload: "x" }]);
      expect(await store.pause({ topic: "mail" }, by)).toEqual({
        scope: "topic",
        name: "mail",
        paused: true,
        perSecond: null,
        waiting: 3,
        by: "alice",
        at: clock(),
      });
      expect(topics(await store.claim({ owner }))).toEqual(["other"]);
      expect(await store.claim({ owner })).toEqual([]);
      await store.add(messages(1, { topic: "mail", payload: "late" }));
      expect(await store.claim({ owner })).toEqual([]);
      expect(await store.stats()).toMatchObject({ due: 0, oldestDueAgeMs: null, phases: { paused: 4 } });
      expect(await store.controls()).toMatchObject([{ name: "mail", paused: true, waiting: 4 }]);

      expect(await store.resume({ topic: "mail" }, by)).toEqual({ wasPaused: true });
      expect(await store.controls()).toEqual([]);
      expect(await store.stats()).toMatchObject({ due: 4, phases: { paused: 0 } });
      const claimed = [...(await store.claim({ owner, batchSize: 2 })), ...(await claimAll(store, owner, 2))];
      expect(payloads(claimed)).toEqual(["000", "001", "002", "late"]);
      expect(claimed.every(({ attempt, crashes }) => attempt === 0 && crashes === 0)).toBe(true);
      expect(ids(claimed.slice(0, 3))).toEqual(ids(keys.slice(0, 3)));
      expect((await store.ack(owner, claimed)).lost).toEqual([]);
      expect((await stored(keys[0]!)).state).toBe(states.done);
    });

    it("ADD-17 a queue with controls is claimed by one statement", async () => {
      const { store, on, owner } = await queue();
      await store.add([...messages(2), ...messages(1, { topic: "mail" }), ...messages(1, { topic: "slow" })]);
      await store.pause({ topic: "mail" }, by);
      await store.limit({ topic: "slow", perSecond: 0.5 }, by);
      const db = watched(database().db);
      const other = on(db);
      expect(topics(await other.claim({ owner }))).toEqual(["test", "test", "slow"]);
      expect(await other.claim({ owner })).toEqual([]);
      expect(db.calls).toEqual(["claim", "claim"]);
    });

    it("ADD-17 a paused queue is not claimed, and its messages keep their order", async () => {
      const { store, on, owner, clock } = await queue();
      await store.add(messages(3));
      await store.pause("all", by);
      await store.add(messages(1, { payload: "late" }));
      clock.advance(1_000);
      const db = watched(database().db);
      expect(await on(db).claim({ owner })).toEqual([]);
      expect(db.calls).toEqual(["claim"]);
      expect(await store.stats()).toMatchObject({ due: 0, oldestDueAgeMs: null, phases: { paused: 4 } });
      expect(await store.oldestDueAgeMs()).toBeNull();
      expect(await store.controls()).toMatchObject([
        { scope: "queue", name: null, paused: true, waiting: 4, by: "alice" },
      ]);
      expect(await store.resume("all", by)).toEqual({ wasPaused: true });
      expect(await store.oldestDueAgeMs()).toBe(1_000);
      expect(payloads(await store.claim({ owner }))).toEqual(["000", "001", "002", "late"]);
    });

    it.runIf(kind === "inbox")("ADD-17 a paused source pauses its messages of all topics", async () => {
      const { store, owner } = await queue();
      const from = (source: string, topic: string) => ({ source, topic, payload: `${source} ${topic}` });
      await store.add([from("stripe", "a"), from("github", "a"), from("stripe", "b")]);
      await store.pause({ source: "stripe" }, by);
      expect((await store.stats()).phases).toMatchObject({ waiting: 1, paused: 2 });
      expect(payloads(await claimAll(store, owner))).toEqual(["github a"]);
      await store.pause({ topic: "a" }, { by: "bob" });
      expect(await store.resume({ source: "stripe" }, by)).toEqual({ wasPaused: true });
      expect(payloads(await claimAll(store, owner))).toEqual(["stripe b"]); // the topic's pause holds the other
      await store.resume({ topic: "a" }, by);
      expect(payloads(await claimAll(store, owner))).toEqual(["stripe a"]);
    });

    it("ADD-17 retries and messages with lost leases are paused too, and keep their attempts", async () => {
      const { store, owner, clock, held } = await queue();
      const [abandoned, lost] = await held(2);
      await store.abandon(owner, [abandoned!], { delayMs: 1_000, error: "no" });
      await store.pause({ topic: "test" }, by);
      clock.advance(120_000);
      expect(await store.claim({ owner })).toEqual([]);
      expect(await store.reapExpired()).toMatchObject({ reaped: 1 });
      expect(await store.claim({ owner })).toEqual([]);
      expect((await store.abandon(owner, [lost!])).lost).toHaveLength(1);
      await store.resume({ topic: "test" }, by);
      const again = await claimAll(store, owner);
      expect(again.map(({ attempt, crashes }) => ({ attempt, crashes }))).toEqual([
        { attempt: 1, crashes: 0 },
        { attempt: 1, crashes: 1 },
      ]);
    });

    it("ADD-17 a message that crashed twice is claimed by itself after a pause, too", async () => {
      const { store, owner, clock, held } = await queue();
      const [suspect] = await held(1);
      clock.advance(120_000);
      await store.claim({ owner });
      clock.advance(120_000);
      await store.pause({ topic: "test" }, by);
      expect(await store.claim({ owner })).toEqual([]);
      await store.add(messages(2));
      await store.resume({ topic: "test" }, by);
      expect(ids(await store.claim({ owner }))).toEqual(ids([suspect!]));
    });

    it("ADD-17 handlers that run when the pause begins can settle their messages", async () => {
      const { store, owner, held } = await queue();
      const claimed = await held(3);
      await store.pause({ topic: "test" }, by);
      expect((await store.renew(owner, claimed, 45_000)).lost).toEqual([]);
      expect((await store.ack(owner, claimed.slice(0, 1))).lost).toEqual([]);
      expect((await store.release(owner, claimed.slice(1))).lost).toEqual([]);
      expect(await store.claim({ owner })).toEqual([]);
      expect((await store.stats()).phases.paused).toBe(2);
    });

    it("ADD-17 a paused message has the state of a waiting one, and expires", async () => {
      const { store, owner, clock, dead, stored } = await queue();
      const expiresAt = new Date(clock().getTime() + 60_000);
      const [key] = await store.add(messages(1, { expiresAt }));
      await store.add(messages(1, { payload: "stays" }));
      await store.pause({ topic: "test" }, by);
      await store.claim({ owner });
      expect(await stored(key!)).toMatchObject({
        state: states.waiting,
        owner: null,
        lockedUntil: null,
        attempt: 0,
      });
      expect((await store.list({ state: states.waiting })).messages).toHaveLength(2);
      expect((await store.stats()).counts).toEqual(context.counts({ waiting: 2 }));
      clock.advance(61_000);
      expect(await store.reapExpired()).toMatchObject({ reaped: 0, dead: 1 });
      expect(dead).toEqual([{ id: context.idOf(key!), reason: reasons.expired }]);
      expect(await stored(key!)).toMatchObject({ state: states.dead, lastError: reasons.expired });
      await store.resume({ topic: "test" }, by);
      expect(payloads(await claimAll(store, owner))).toEqual(["stays"]);
    });

    it("ADD-17 a claim finds the message behind many of a paused topic", async () => {
      const { store, owner } = await queue();
      await store.add(messages(230, { topic: "mail" }));
      await store.add(messages(1, { topic: "other", payload: "behind" }));
      await store.pause({ topic: "mail" }, by);
      expect(payloads(await store.claim({ owner, batchSize: 50 }))).toEqual(["behind"]);
      expect((await store.stats()).phases.paused).toBe(230);
      expect(await store.resume({ topic: "mail" }, by)).toEqual({ wasPaused: true });
      expect(payloads(await claimAll(store, owner)).sort()).toEqual(numbers(230));
    });

    it("ADD-17 a pause holds in every process", async (test) => {
      skipUnless(test, database(), "severalConnections");
      const { store, on } = await queue();
      await store.add(messages(2));
      const db = database().reopen();
      try {
        const other = on(db);
        expect(await other.claim({ owner: newOwnerToken(), batchSize: 1 })).toHaveLength(1);
        await store.pause({ topic: "test" }, by);
        expect(await other.claim({ owner: newOwnerToken() })).toEqual([]);
        expect(await other.controls()).toEqual(await store.controls());
        expect(await other.resume({ topic: "test" }, { by: "bob" })).toMatchObject({ wasPaused: true });
        expect(await store.claim({ owner: newOwnerToken() })).toHaveLength(1);
      } finally {
        await db.close();
      }
    });

    it("ADD-17 pausing twice is one pause; resuming what is not paused changes nothing", async () => {
      const { store, clock } = await queue();
      await store.pause({ topic: "test" }, by);
      clock.advance(1_000);
      await store.pause({ topic: "test" }, { by: "bob" });
      expect(await store.controls()).toMatchObject([{ by: "bob", at: clock() }]);
      expect(await store.resume({ topic: "Test" }, by)).toEqual({ wasPaused: false });
      expect(await store.controls()).toHaveLength(1);
      expect(await store.resume({ topic: "test" }, by)).toEqual({ wasPaused: true });
      expect(await store.resume({ topic: "test" }, by)).toEqual({ wasPaused: false });
    });

    it("ADD-17 topics that differ in case, spaces, quotes or wildcards are not paused", async () => {
      const { store, owner } = await queue();
      const names = ["a_b", "a%b", "A_B", "a'b", " a_b", "ab"];
      await store.add(names.map((topic) => ({ topic, payload: topic })));
      await store.pause({ topic: "a_b" }, by);
      await store.pause({ topic: "a'b" }, by);
      expect(payloads(await claimAll(store, owner)).sort()).toEqual(["a%b", "A_B", " a_b", "ab"].sort());
    });

    it("ADD-17 a wrong target or a missing name is refused, and pauses nothing", async () => {
      const { store, owner } = await queue();
      await store.add(messages(1));
      const wrong = [null, undefined, {}, "topic", "", [], { topic: "" }, { topic: 7 }, { topic: "x " }];
      const both = [
        { topic: "a", source: "b" },
        { topic: "test", queue: "inbox" },
        { topic: "a".repeat(256) },
      ];
      for (const target of [...wrong, ...both, ...(kind === "outbox" ? [{ source: "stripe" }] : [])]) {
        for (const verb of ["pause", "resume"] as const) {
          const call = async () => store[verb](target as ControlTarget, by);
          await expect(call, `${verb} ${JSON.stringify(target)}`).rejects.toBeInstanceOf(
            InvalidArgumentError,
          );
        }
      }
      for (const options of [undefined, {}, { by: "" }, { by: "a", who: "b" }]) {
        const call = async () => store.pause({ topic: "test" }, options as { by: string });
        await expect(call, JSON.stringify(options)).rejects.toBeInstanceOf(InvalidArgumentError);
      }
      expect(await store.controls()).toEqual([]);
      expect(ids(await store.claim({ owner }))).toEqual(ids((await store.list()).messages.map(keyOf)));
    });
  });
}

const numbers = (count: number): string[] => messages(count).map(({ payload }) => payload);
