import { describe, expect, it } from "vitest";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { backoffMs, retryPolicy } from "../../../src/queue/retry-policy.js";
import { reasons } from "../../../src/sql/dead-letters.js";
import { mostCounted } from "../../../src/sql/store-options.js";
import { type AnyMessage, claimAll, messages, type QueueContext, type TestQueue } from "./support.js";

/** Abandons one message again and again, and returns how long it had to wait each time. */
async function waitsOf({ store, owner, clock, held, stored }: TestQueue, times: number): Promise<number[]> {
  const [message] = await held(1);
  const waits: number[] = [];
  for (let n = 1; n <= times; n++) {
    const { changed } = await store.abandon(owner, [message!]);
    expect(changed).toHaveLength(1);
    const { nextAttemptAt } = await stored(message!);
    waits.push(nextAttemptAt.getTime() - clock().getTime());
    clock.advance(waits.at(-1)! + 1); // some databases keep fractions of a millisecond
    if (n < times) expect(await store.claim({ owner })).toHaveLength(1);
  }
  return waits;
}

/** Back-off, the last attempt, and expiry. */
export function retryTests({ database, queue, ids, keyOf, addedAt, counts, states }: QueueContext): void {
  describe("retry and back-off", () => {
    it("IBX-042 IBX-052 IBX-080 IBX-081 OBX-029 OBX-039 OBX-061 OBX-062 waits min(2^attempt s, 60 s) by default, to the millisecond", async () => {
      const { store, owner, clock, held, stored } = await queue();
      const claimed = await held(1);
      for (const seconds of [2, 4, 8, 16, 32, 60, 60, 60, 60]) {
        await store.abandon(owner, claimed);
        const { nextAttemptAt } = await stored(claimed[0]!);
        expect(nextAttemptAt.getTime() - clock().getTime()).toBe(seconds * 1_000);
        clock.advance(seconds * 1_000 - 1);
        expect(await store.claim({ owner }), `1 ms before ${seconds} s`).toEqual([]);
        clock.advance(1);
        expect(await store.claim({ owner }), `at ${seconds} s`).toHaveLength(1);
      }
      expect((await stored(claimed[0]!)).attempt).toBe(9);
    });

    it("IBX-080 IBX-081 OBX-061 OBX-062 after an expired lease a message waits as long as an abandoned one", async () => {
      const { store, clock, held } = await queue();
      await held(1);
      for (const seconds of [2, 4, 8, 16, 32, 60, 60]) {
        clock.advance(30_000 + seconds * 1_000 - 1);
        expect(await store.claim({ owner: newOwnerToken() }), `1 ms before ${seconds} s`).toEqual([]);
        clock.advance(1);
        expect(await store.claim({ owner: newOwnerToken() }), `at ${seconds} s`).toHaveLength(1);
      }
    });

    it("IBX-082 OBX-063 base, factor and cap are configurable", async () => {
      const made = await queue({ retry: { baseMs: 100, factor: 3, maxMs: 5_000 } });
      expect(await waitsOf(made, 6)).toEqual([300, 900, 2_700, 5_000, 5_000, 5_000]);
    });

    it("IBX-082 OBX-063 the database computes the same back-off as backoffMs", async () => {
      for (const retry of [
        { maxAttempts: 100, baseMs: 333, factor: 1.7, maxMs: 1_000_000 },
        { maxAttempts: 100, baseMs: 5_000, factor: 2, maxMs: 1_000 },
        { maxAttempts: 100, baseMs: 1, factor: 100, maxMs: 86_400_000 },
      ]) {
        const waits = await waitsOf(await queue({ retry }), 20);
        for (const [index, wait] of waits.entries()) {
          // a database may cut the fraction of a millisecond where we round it
          const expected = backoffMs(retryPolicy(retry), index + 1, () => 0);
          expect(Math.abs(wait - expected), `attempt ${index + 1}`).toBeLessThanOrEqual(1);
        }
      }
    });

    it("IBX-082 OBX-063 each message of a batch gets its own jitter, between none and all of it", async () => {
      const { store, owner, clock, held, stored } = await queue({
        retry: { baseMs: 1_000, factor: 1, jitterMs: 1_000_000 },
      });
      const claimed = await held(20);
      await store.abandon(owner, claimed);
      const waits: number[] = [];
      for (const key of claimed) waits.push((await stored(key)).nextAttemptAt.getTime() - clock().getTime());
      expect(Math.min(...waits)).toBeGreaterThanOrEqual(1_000);
      expect(Math.max(...waits)).toBeLessThanOrEqual(1_001_000);
      expect(new Set(waits).size).toBeGreaterThan(1);
    });

    it("IBX-083 OBX-064 a message abandoned at its last attempt is dead, returned as dead and passed to onDead", async () => {
      const { store, owner, clock, dead, held, stored } = await queue({ retry: { maxAttempts: 3 } });
      const claimed = await held(1);
      for (const attempt of [1, 2]) {
        const result = await store.abandon(owner, claimed, { error: `try ${attempt}` });
        expect(result.dead).toEqual([]);
        clock.advance(60_000);
        expect(await store.claim({ owner })).toHaveLength(1);
      }
      const last = await store.abandon(owner, claimed, { error: "try 3", delayMs: 1_000 });
      expect(ids(last.changed)).toEqual(ids(claimed));
      expect(ids(last.dead)).toEqual(ids(claimed));
      expect(await stored(claimed[0]!)).toMatchObject({
        state: states.dead,
        attempt: 3,
        lastError: "try 3",
        owner: null,
        lockedUntil: null,
      });
      expect(dead).toEqual([{ id: ids(claimed)[0], reason: "try 3" }]);
      clock.advance(86_400_000);
      expect(await store.claim({ owner })).toEqual([]);
    });

    it("IBX-083 OBX-064 in one batch only the messages at their last attempt die", async () => {
      const { store, owner, clock, held, stored } = await queue({ retry: { maxAttempts: 2 } });
      const old = await held(1);
      await store.abandon(owner, old);
      clock.advance(60_000);
      const young = await store.addOne({ topic: "t", payload: "" });
      const both = await store.claim({ owner });
      expect(both).toHaveLength(2);
      const result = await store.abandon(owner, both);
      expect(ids(result.changed)).toEqual(ids(both));
      expect(ids(result.dead)).toEqual(ids(old));
      expect((await stored(young)).state).toBe(states.waiting);
    });

    it("IBX-084 OBX-065 a message has ten attempts by default, or as many as the policy says", async () => {
      const patient = await queue();
      await waitsOf(patient, 9);
      const [message] = await patient.store.claim({ owner: patient.owner });
      expect(message).toMatchObject({ state: states.held, attempt: 9 });
      expect((await patient.store.abandon(patient.owner, [message!])).dead).toHaveLength(1);
      expect(await patient.stored(message!)).toMatchObject({ state: states.dead, attempt: 10 });
      expect((await patient.store.list({ state: states.dead })).messages).toMatchObject([{ attempt: 10 }]);

      const strict = await queue({ retry: { maxAttempts: 1 } });
      const claimed = await strict.held(1);
      expect((await strict.store.abandon(strict.owner, claimed)).dead).toHaveLength(1);
      expect(await strict.stored(claimed[0]!)).toMatchObject({ state: states.dead, attempt: 1 });
    });

    it("MID-09 IBX-084 OBX-065 with maxAttempts: Infinity neither failures nor crashes end a message, and fail does", async () => {
      const made = await queue({ retry: { maxAttempts: Number.POSITIVE_INFINITY } });
      const { store, owner, clock, dead, stored } = made;
      await waitsOf(made, 12);
      for (const finder of ["claim", "reaper"] as const)
        for (let crash = 1; crash <= 6; crash++) {
          expect(await store.claim({ owner: newOwnerToken() }), finder).toHaveLength(1);
          clock.advance(90_000);
          if (finder === "reaper") expect(await store.reapExpired()).toMatchObject({ reaped: 1, dead: 0 });
        }
      const [message] = await store.claim({ owner });
      expect(message).toMatchObject({ attempt: 24, crashes: 12 });
      expect(dead).toEqual([]);
      await store.fail(owner, [message!], "410 Gone");
      expect(await stored(message!)).toMatchObject({ state: states.dead, attempt: 25 });
    });

    it("MID-09 OBX-065 a limit of messages per second does not end what is retried for ever", async () => {
      const { store, clock, dead, held } = await queue({ retry: { maxAttempts: Number.POSITIVE_INFINITY } });
      await store.limit({ topic: "t", perSecond: 5 }, { by: "alice" });
      await held(1, { topic: "t" });
      for (let crash = 1; crash <= 12; crash++) {
        clock.advance(90_000);
        expect(await store.claim({ owner: newOwnerToken() })).toMatchObject([{ attempt: crash }]);
      }
      expect(dead).toEqual([]);
    });

    it("MID-09 OBX-065 abandon takes maxAttempts: Infinity in place of the policy's", async () => {
      const { store, owner, held, stored } = await queue({ retry: { maxAttempts: 1 } });
      const [message] = await held(1);
      const result = await store.abandon(owner, [message!], { maxAttempts: Number.POSITIVE_INFINITY });
      expect(result).toMatchObject({ changed: [message!], dead: [] });
      expect(await stored(message!)).toMatchObject({ state: states.waiting, attempt: 1 });
    });

    it("MID-09 OBX-065 the counters of a message that is retried for ever stop, and claims go on", async () => {
      const { store, owner, clock, dead, held, stored, names } = await queue({
        retry: { maxAttempts: Number.POSITIVE_INFINITY },
      });
      const [message] = await held(1);
      const { attempts, crashes } = mostCounted;
      const near = `update ${names.state} set attempt = ${attempts - 1}, crashes = ${crashes - 1}`;
      const claimAgain = async () => {
        clock.advance(90_000);
        return (await store.claim({ owner }))[0]!;
      };
      await database().raw(near);
      for (const end of ["counted", "stopped"]) {
        expect(await claimAgain(), end).toMatchObject({ attempt: attempts, crashes });
      }
      clock.advance(30_001);
      expect(await store.reapExpired()).toMatchObject({ reaped: 1, dead: 0 });
      expect(await stored(message!)).toMatchObject({ attempt: attempts, crashes });
      const again = await claimAgain();
      expect((await store.abandon(owner, [again], { error: "503" })).dead).toEqual([]);
      expect(await stored(message!)).toMatchObject({ attempt: attempts, crashes: 0, state: states.waiting });
      expect((await store.attempts(keyOf(message!))).at(-1)).toMatchObject({
        attempt: attempts,
        error: "503",
      });
      await store.fail(owner, [await claimAgain()], "no");
      expect(await stored(message!)).toMatchObject({ attempt: attempts, state: states.dead });
      expect(dead).toHaveLength(1);
    });

    it("MID-09 OBX-063 after millions of attempts the database computes the same back-off as backoffMs", async () => {
      for (const shape of [
        { baseMs: 700, factor: 1, maxMs: 60_000 },
        { baseMs: 1, factor: 1.000001, maxMs: 1_000_000 },
        { baseMs: 1_000, factor: 100, maxMs: 60_000 },
        { baseMs: 1, factor: 1.05, maxMs: 100_000 },
      ]) {
        const retry = { ...shape, maxAttempts: Number.POSITIVE_INFINITY };
        const { store, owner, clock, held, stored, names } = await queue({ retry });
        const [message] = await held(1);
        for (const attempt of [99, 499, 5_000_000]) {
          await database().raw(`update ${names.state} set attempt = ${attempt}`);
          await store.abandon(owner, [message!]);
          const waitMs = (await stored(message!)).nextAttemptAt.getTime() - clock().getTime();
          const expected = backoffMs(retryPolicy(retry), attempt + 1, () => 0);
          expect(Math.abs(waitMs - expected), `${JSON.stringify(shape)} at ${attempt}`).toBeLessThanOrEqual(
            1,
          );
          clock.advance(waitMs + 1);
          expect(await store.claim({ owner })).toHaveLength(1);
        }
      }
    });

    it("IBX-077 OBX-058 key, messageId, content and time of enqueueing are the same on every delivery", async () => {
      const { store, owner, held, clock } = await queue();
      const [first] = await held(1, { headers: { a: "b" }, correlationId: "c" });
      await store.abandon(owner, [first!], { delayMs: 1_000 });
      clock.advance(1_000);
      const [second] = await store.claim({ owner, leaseMs: 1_000 });
      clock.advance(60_000);
      const [third] = await store.claim({ owner });
      await store.fail(owner, [third!], "no");
      await store.replay([third!]);
      const [fourth] = await store.claim({ owner });
      const same = (message: AnyMessage) => {
        const { messageId, topic, payload, headers, correlationId } = message;
        const content = { messageId, topic, payload, headers, correlationId };
        return { key: keyOf(message), addedAt: addedAt(message), ...content };
      };
      for (const again of [second!, third!, fourth!]) expect(same(again)).toEqual(same(first!));
      expect([second!.attempt, third!.attempt, fourth!.attempt]).toEqual([1, 2, 0]);
    });
  });

  describe("expiry", () => {
    it("ADD-03 a claim that finds an expired message makes it dead and does not return it", async () => {
      const { store, owner, clock, dead, stored } = await queue();
      const expiresAt = new Date(clock().getTime() + 10_000);
      const [stale, live] = await store.add([...messages(1, { expiresAt }), ...messages(1)]);
      clock.advance(10_000);
      expect(ids(await store.claim({ owner }))).toEqual(ids([live!]));
      expect(await stored(stale!)).toMatchObject({
        state: states.dead,
        attempt: 0,
        lastError: reasons.expired,
        owner: null,
        lockedUntil: null,
        expiresAt,
      });
      expect(dead).toEqual([{ id: ids([stale!])[0], reason: reasons.expired }]);
      expect(await store.stats()).toMatchObject({ expired: 1 });
    });

    it("ADD-03 the reaper makes expired messages dead, also while they wait for a retry or their due time", async () => {
      const { store, owner, clock, dead, stored } = await queue();
      const expiresAt = new Date(clock().getTime() + 10_000);
      const dueAt = new Date(clock().getTime() + 60_000);
      const keys = await store.add([...messages(1, { expiresAt }), ...messages(1, { expiresAt, dueAt })]);
      await store.abandon(owner, await store.claim({ owner }), { delayMs: 3_600_000, error: "503" });
      clock.advance(9_999);
      expect(await store.reapExpired()).toEqual({ reaped: 0, dead: 0, more: false });
      clock.advance(1);
      expect(await store.reapExpired()).toEqual({ reaped: 0, dead: 2, more: false });
      expect(dead.map(({ id }) => id).sort()).toEqual(ids(keys));
      for (const key of keys) {
        expect(await stored(key)).toMatchObject({ state: states.dead, lastError: reasons.expired });
      }
      clock.advance(7_200_000);
      expect(await store.claim({ owner })).toEqual([]);
    });

    it("ADD-03 a message is claimable until it expires, and its holder may then still finish it", async () => {
      const { store, owner, clock, dead } = await queue();
      const expiresAt = new Date(clock().getTime() + 10_000);
      const keys = await store.add(messages(2, { expiresAt }));
      clock.advance(9_999);
      const claimed = await store.claim({ owner });
      expect(ids(claimed)).toEqual(ids(keys));
      clock.advance(5_000);
      expect(await store.reapExpired()).toEqual({ reaped: 0, dead: 0, more: false });
      expect((await store.ack(owner, claimed)).changed).toHaveLength(2);
      expect(dead).toEqual([]);
    });

    it("ADD-03 an expired message whose lease expires is dead, whether a claim or the reaper finds it", async () => {
      for (const finder of ["claim", "reaper"] as const) {
        const { store, owner, clock, dead, held, stored } = await queue();
        const [message] = await held(1, { expiresAt: new Date(clock().getTime() + 10_000) });
        clock.advance(120_000);
        if (finder === "reaper") expect((await store.reapExpired()).dead).toBe(1);
        else expect(await store.claim({ owner })).toEqual([]);
        const end = { state: states.dead, attempt: 1, owner: null };
        expect(await stored(message!), finder).toMatchObject(end);
        expect(dead, finder).toEqual([{ id: ids([message!])[0], reason: reasons.expired }]);
      }
    });

    it("ADD-03 a claim finds the live message behind any number of expired ones", async () => {
      const { store, owner, clock } = await queue();
      await store.add(messages(30, { expiresAt: new Date(clock().getTime() + 1) }));
      const live = await store.add(messages(1, { dueAt: new Date(clock().getTime() + 1_000) }));
      clock.advance(1_000);
      expect(ids(await store.claim({ owner, batchSize: 10 }))).toEqual(ids(live));
      expect(await claimAll(store, owner, 10)).toEqual([]);
      expect((await store.stats()).counts).toEqual(counts({ dead: 30, held: 1 }));
    });

    it("ADD-03 a replayed message no longer expires", async () => {
      const { store, owner, clock, stored } = await queue();
      const [stale] = await store.add(messages(1, { expiresAt: new Date(clock().getTime() + 10_000) }));
      clock.advance(20_000);
      await store.reapExpired();
      expect((await store.replay([stale!])).changed).toHaveLength(1);
      expect(await stored(stale!)).toMatchObject({ state: states.waiting, expiresAt: null });
      clock.advance(86_400_000);
      expect(await store.reapExpired()).toEqual({ reaped: 0, dead: 0, more: false });
      expect(await store.claim({ owner })).toMatchObject([{ ...stale!, attempt: 0, expiresAt: null }]);
    });
  });
}
