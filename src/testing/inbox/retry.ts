import { describe, expect, it } from "vitest";
import type { InboxMessage } from "../../queue/message.js";
import { newOwnerToken } from "../../queue/owner-token.js";
import { backoffMs, retryPolicy } from "../../queue/retry-policy.js";
import { reasons } from "../../sql/reasons.js";
import { type Holding, holding } from "./settle.js";
import { brokenConnection, deadlock, type InboxContext, keyOf, keysOf, stored, watched } from "./support.js";

/** Abandons the held message again and again, and answers how long it had to wait each time. */
async function waitsOf({ inbox, owner, clock, claimed }: Holding, times: number): Promise<number[]> {
  const message = claimed[0]!;
  const waits: number[] = [];
  for (let n = 1; n <= times; n++) {
    const { changed } = await inbox.abandon(owner, [message]);
    expect(changed).toHaveLength(1);
    const { nextAttemptAt } = await stored(inbox, message);
    waits.push(nextAttemptAt.getTime() - clock().getTime());
    clock.advance(waits.at(-1)!);
    if (n < times) expect(await inbox.claim({ owner })).toHaveLength(1);
  }
  return waits;
}

export function retryTests(context: InboxContext): void {
  describe("retry and back-off", () => {
    it("IBX-080 IBX-081 waits 2, 4, 8, 16, 32, 60, 60 s, to the millisecond", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1);
      for (const seconds of [2, 4, 8, 16, 32, 60, 60]) {
        await inbox.abandon(owner, claimed);
        clock.advance(seconds * 1_000 - 1);
        expect(await inbox.claim({ owner }), `1 ms before ${seconds} s`).toEqual([]);
        clock.advance(1);
        expect(await inbox.claim({ owner }), `at ${seconds} s`).toHaveLength(1);
      }
      expect((await stored(inbox, claimed[0]!)).attempt).toBe(7);
    });

    it("IBX-080 IBX-081 a lease that ran out waits as long as an abandoned message, after its end", async () => {
      const { inbox, clock } = await holding(context, 1);
      for (const seconds of [2, 4, 8, 16, 32, 60, 60]) {
        clock.advance(30_000 + seconds * 1_000 - 1);
        expect(await inbox.claim({ owner: newOwnerToken() }), `1 ms before ${seconds} s`).toEqual([]);
        clock.advance(1);
        expect(await inbox.claim({ owner: newOwnerToken() }), `at ${seconds} s`).toHaveLength(1);
      }
    });

    it("IBX-082 base, factor and cap are the user's to set", async () => {
      const made = await holding(context, 1, { retry: { baseMs: 100, factor: 3, maxMs: 5_000 } });
      expect(await waitsOf(made, 6)).toEqual([300, 900, 2_700, 5_000, 5_000, 5_000]);
    });

    it("IBX-082 the database computes the same waits as backoffMs, for odd policies and many attempts too", async () => {
      for (const retry of [
        { maxAttempts: 100, baseMs: 333, factor: 1.7, maxMs: 1_000_000 },
        { maxAttempts: 100, baseMs: 5_000, factor: 2, maxMs: 1_000 },
        { maxAttempts: 100, baseMs: 1, factor: 100, maxMs: 86_400_000 },
      ]) {
        const waits = await waitsOf(await holding(context, 1, { retry }), 20);
        for (const [index, wait] of waits.entries()) {
          // a database may cut the fraction of a millisecond where we round it
          const expected = backoffMs(retryPolicy(retry), index + 1, () => 0);
          expect(Math.abs(wait - expected), `attempt ${index + 1}`).toBeLessThanOrEqual(1);
        }
      }
    });

    it("IBX-082 jitter adds between none and all of itself, and not always the same", async () => {
      const retry = { maxAttempts: 100, baseMs: 1_000, factor: 1, jitterMs: 500 };
      const waits = await waitsOf(await holding(context, 1, { retry }), 20);
      for (const wait of waits) {
        expect(wait).toBeGreaterThanOrEqual(1_000);
        expect(wait).toBeLessThanOrEqual(1_500);
      }
      expect(new Set(waits).size).toBeGreaterThan(1);
    });

    it("IBX-082 messages of one batch get jitter of their own", async () => {
      const { inbox, owner, claimed } = await holding(context, 20, { retry: { jitterMs: 1_000_000 } });
      await inbox.abandon(owner, claimed);
      const times = await Promise.all(
        claimed.map(async (key) => (await stored(inbox, key)).nextAttemptAt.getTime()),
      );
      expect(new Set(times).size).toBeGreaterThan(1);
    });

    it("IBX-083 the last attempt, abandoned, makes the message Dead, is answered as dead and told to onDead", async () => {
      const { inbox, owner, clock, dead, claimed } = await holding(context, 1, { retry: { maxAttempts: 3 } });
      for (const attempt of [1, 2]) {
        const result = await inbox.abandon(owner, claimed, { error: `try ${attempt}` });
        expect(result.dead).toEqual([]);
        clock.advance(60_000);
        expect(await inbox.claim({ owner })).toHaveLength(1);
      }
      const last = await inbox.abandon(owner, claimed, { error: "try 3", delayMs: 1_000 });

      expect(keysOf(last.changed)).toEqual(keysOf(claimed));
      expect(keysOf(last.dead)).toEqual(keysOf(claimed));
      const end = { state: "Dead", attempt: 3, lastError: "try 3", owner: null, lockedUntil: null };
      expect(await stored(inbox, claimed[0]!)).toMatchObject(end);
      expect(dead).toEqual([{ ...keyOf(claimed[0]!), reason: "try 3" }]);
      clock.advance(86_400_000);
      expect(await inbox.claim({ owner })).toEqual([]);
    });

    it("IBX-083 in one batch only those at their last attempt die", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1, { retry: { maxAttempts: 2 } });
      await inbox.abandon(owner, claimed);
      clock.advance(60_000);
      const young = context.message();
      await inbox.receive(young);
      const both = await inbox.claim({ owner });
      expect(both).toHaveLength(2);
      const result = await inbox.abandon(owner, both);
      expect(keysOf(result.changed)).toEqual(keysOf(both));
      expect(keysOf(result.dead)).toEqual(keysOf(claimed));
      expect((await stored(inbox, young)).state).toBe("Processing");
    });

    it("IBX-083 a message whose worker always dies ends Dead: by claim or by reaper, after the same attempts at the same time", async () => {
      const ends: Partial<InboxMessage>[] = [];
      for (const finder of ["claim", "reaper"] as const) {
        const { inbox, clock, dead, claimed } = await holding(context, 1, { retry: { maxAttempts: 3 } });
        // the claims come when lease and back-off are over: 2 s after the first attempt, 4 s after the second
        for (const [attempt, seconds] of [
          [1, 32],
          [2, 34],
        ] as const) {
          clock.advance(seconds * 1_000);
          if (finder === "reaper") expect(await inbox.reapExpired()).toMatchObject({ reaped: 1, dead: 0 });
          const again = await inbox.claim({ owner: newOwnerToken() });
          expect(again, finder).toMatchObject([{ ...keyOf(claimed[0]!), attempt }]);
        }
        clock.advance(38_000);
        if (finder === "reaper")
          expect(await inbox.reapExpired()).toEqual({ reaped: 1, dead: 1, more: false });
        else expect(await inbox.claim({ owner: newOwnerToken() })).toEqual([]);

        expect(dead, finder).toEqual([{ ...keyOf(claimed[0]!), reason: reasons.leaseExpired }]);
        const { state, attempt, owner, lockedUntil, lastError } = await stored(inbox, claimed[0]!);
        ends.push({ state, attempt, owner, lockedUntil, lastError });
        clock.advance(86_400_000);
        expect(await inbox.claim({ owner: newOwnerToken() })).toEqual([]);
      }
      const dead = {
        state: "Dead",
        attempt: 3,
        owner: null,
        lockedUntil: null,
        lastError: reasons.leaseExpired,
      };
      expect(ends).toEqual([dead, dead]);
    });

    it("IBX-083 a claim that meets only exhausted messages goes on to the live ones behind them", async () => {
      const { inbox, clock, dead, claimed } = await holding(context, 3, { retry: { maxAttempts: 1 } });
      clock.advance(120_000);
      const live = context.message();
      await inbox.receive(live);
      expect(keysOf(await inbox.claim({ owner: newOwnerToken() }))).toEqual(keysOf([live]));
      expect(keysOf(dead)).toEqual(keysOf(claimed));
      expect((await inbox.stats()).counts).toMatchObject({ Dead: 3, Processing: 1 });
    });

    it("IBX-084 ten attempts unless told otherwise, and any number from one on", async () => {
      const patient = await holding(context, 1);
      await waitsOf(patient, 9);
      expect(await stored(patient.inbox, patient.claimed[0]!)).toMatchObject({
        state: "Processing",
        attempt: 9,
      });
      expect(await patient.inbox.claim({ owner: patient.owner })).toHaveLength(1);
      expect((await patient.inbox.abandon(patient.owner, patient.claimed)).dead).toHaveLength(1);
      expect(await stored(patient.inbox, patient.claimed[0]!)).toMatchObject({ state: "Dead", attempt: 10 });

      const strict = await holding(context, 1, { retry: { maxAttempts: 1 } });
      expect((await strict.inbox.abandon(strict.owner, strict.claimed)).dead).toHaveLength(1);
      expect(await stored(strict.inbox, strict.claimed[0]!)).toMatchObject({ state: "Dead", attempt: 1 });
    });

    it("release costs no attempt, however often", async () => {
      const { inbox, owner, claimed } = await holding(context, 1, { retry: { maxAttempts: 2 } });
      for (let n = 0; n < 5; n++) {
        await inbox.release(owner, claimed);
        expect(await inbox.claim({ owner })).toMatchObject([{ attempt: 0, state: "Processing" }]);
      }
    });

    it("ADD-03 an expired message is Dead by the claim that meets it, and never handed out", async () => {
      const { inbox, owner, clock, dead } = await holding(context, 0);
      const expiresAt = new Date(clock().getTime() + 10_000);
      const stale = context.message({ expiresAt });
      const live = context.message();
      await inbox.enqueue([stale, live]);
      clock.advance(10_000);
      expect(keysOf(await inbox.claim({ owner }))).toEqual(keysOf([live]));
      const end = { state: "Dead", attempt: 0, lastError: reasons.expired, owner: null, lockedUntil: null };
      expect(await stored(inbox, stale)).toMatchObject({ ...end, expiresAt });
      expect(dead).toEqual([{ ...keyOf(stale), reason: reasons.expired }]);
    });

    it("ADD-03 the reaper makes expired messages Dead, those that wait for a retry or their due time included", async () => {
      const { inbox, owner, clock, dead } = await holding(context, 0);
      const expiresAt = new Date(clock().getTime() + 10_000);
      const tried = context.message({ expiresAt });
      const future = context.message({ expiresAt, dueAt: new Date(clock().getTime() + 60_000) });
      await inbox.enqueue([tried, future]);
      await inbox.abandon(owner, await inbox.claim({ owner }), { delayMs: 3_600_000 });
      clock.advance(9_999);
      expect(await inbox.reapExpired()).toEqual({ reaped: 0, dead: 0, more: false });
      clock.advance(1);
      expect(await inbox.reapExpired()).toEqual({ reaped: 0, dead: 2, more: false });
      expect(keysOf(dead)).toEqual(keysOf([tried, future]));
      for (const key of [tried, future]) {
        expect(await stored(inbox, key)).toMatchObject({ state: "Dead", lastError: reasons.expired });
      }
      clock.advance(7_200_000);
      expect(await inbox.claim({ owner })).toEqual([]);
    });

    it("ADD-03 a message is handed out until it expires, and its holder may then still finish it", async () => {
      const { inbox, owner, clock, dead } = await holding(context, 0);
      const expiresAt = new Date(clock().getTime() + 10_000);
      await inbox.enqueue(context.messages(2, { expiresAt }));
      clock.advance(9_999);
      const claimed = await inbox.claim({ owner });
      expect(claimed).toHaveLength(2);
      clock.advance(5_000);
      expect(await inbox.reapExpired()).toEqual({ reaped: 0, dead: 0, more: false });
      expect((await inbox.ack(owner, claimed)).changed).toHaveLength(2);
      expect(dead).toEqual([]);
    });

    it("ADD-03 a lease that ran out on an expired message makes it Dead, by claim and by reaper", async () => {
      for (const finder of ["claim", "reaper"] as const) {
        const { inbox, owner, clock, dead } = await holding(context, 0);
        await inbox.receive(context.message({ expiresAt: new Date(clock().getTime() + 10_000) }));
        const [message] = await inbox.claim({ owner });
        clock.advance(120_000);
        if (finder === "reaper") expect((await inbox.reapExpired()).dead).toBe(1);
        else expect(await inbox.claim({ owner })).toEqual([]);
        expect(await stored(inbox, message!), finder).toMatchObject({
          state: "Dead",
          attempt: 1,
          owner: null,
        });
        expect(dead, finder).toEqual([{ ...keyOf(message!), reason: reasons.expired }]);
      }
    });

    it("ADD-03 the same delivery again does not bring back the expiry that a replay took away", async () => {
      const { inbox, clock } = await context.freshInbox();
      const owner = newOwnerToken();
      const message = context.message({ expiresAt: new Date(clock().getTime() + 1_000) });
      await inbox.receive(message);
      clock.advance(2_000);
      expect(await inbox.claim({ owner })).toEqual([]);
      expect((await inbox.replay([message])).changed).toHaveLength(1);
      expect(await inbox.receive(message)).toBe("duplicate");
      expect(await inbox.claim({ owner })).toMatchObject([{ messageId: message.messageId, expiresAt: null }]);
    });

    it("ADD-03 a claim finds the live message behind any number of expired ones", async () => {
      const { inbox, owner, clock } = await context.freshInbox();
      await inbox.enqueue(context.messages(30, { expiresAt: new Date(clock().getTime() + 1) }));
      clock.advance(1_000);
      const live = context.message();
      await inbox.receive(live);
      expect(keysOf(await inbox.claim({ owner, batchSize: 10 }))).toEqual(keysOf([live]));
      expect((await inbox.stats()).counts.Dead).toBe(30);
    });

    it("ADD-03 a replayed message no longer expires", async () => {
      const { inbox, owner, clock } = await context.freshInbox();
      const stale = context.message({ expiresAt: new Date(clock().getTime() + 10_000) });
      await inbox.receive(stale);
      clock.advance(20_000);
      await inbox.reapExpired();
      expect((await inbox.replay([stale])).changed).toHaveLength(1);
      expect(await stored(inbox, stale)).toMatchObject({ state: "Processing", expiresAt: null });
      clock.advance(86_400_000);
      expect(await inbox.reapExpired()).toEqual({ reaped: 0, dead: 0, more: false });
      expect(await inbox.claim({ owner })).toMatchObject([{ ...keyOf(stale), attempt: 0, expiresAt: null }]);
    });
  });

  describe("database faults", () => {
    it("IBX-104 a deadlock's victim is repeated, by every operation of a whole cycle, with a warning", async () => {
      const { on, owner, logs, clock } = await context.freshInbox();
      const { db } = context.database();
      const failing = () => on(watched(db, [{ fail: deadlock(db) }]));
      const first = context.message();
      expect(await failing().receive(first)).toBe("enqueued");
      expect(await failing().enqueue(context.messages(3))).toEqual(["enqueued", "enqueued", "enqueued"]);
      expect(await failing().alreadyProcessed(keyOf(first))).toBe(false);
      const claimed = await failing().claim({ owner });
      expect(claimed).toHaveLength(4);
      const [a, b, c, d] = claimed;
      expect((await failing().renew(owner, claimed, 60_000)).changed).toHaveLength(4);
      expect((await failing().ack(owner, [a!])).changed).toHaveLength(1);
      expect((await failing().abandon(owner, [b!])).changed).toHaveLength(1);
      expect((await failing().fail(owner, [c!], "no")).changed).toHaveLength(1);
      expect((await failing().release(owner, [keyOf(d!)])).changed).toHaveLength(1);
      expect((await failing().replay([c!])).changed).toHaveLength(1);
      clock.advance(60 * 86_400_000);
      expect(await failing().reapExpired()).toEqual({ reaped: 0, dead: 0, more: false });
      expect((await failing().purgeDone()).purged).toBe(1);
      expect((await failing().stats()).counts).toEqual({ Seen: 0, Processing: 3, Done: 0, Dead: 0 });

      const warnings = logs.filter((line) => line.level === "warn" && /trying again/.test(line.message));
      expect(warnings).toHaveLength(13);
      expect(warnings[0]!.fields).toMatchObject({ statement: "receive", retry: 1 });
    });

    it("IBX-104 a receive whose answer was lost after the commit enqueues nothing twice", async () => {
      const { inbox, on, owner } = await context.freshInbox();
      const { db } = context.database();
      const losing = () => on(watched(db, [{ loseAnswer: brokenConnection(db) }]));
      const [one, ...many] = context.messages(4);
      expect(["enqueued", "duplicate"]).toContain(await losing().receive(one!));
      for (const outcome of await losing().enqueue(many))
        expect(["enqueued", "duplicate"]).toContain(outcome);

      expect((await inbox.list()).messages).toHaveLength(4);
      const claimed = await inbox.claim({ owner });
      expect(keysOf(claimed)).toEqual(keysOf([one!, ...many]));
      expect(claimed.every((message) => message.attempt === 0)).toBe(true);
      expect(await inbox.claim({ owner: newOwnerToken() })).toEqual([]);
    });

    it("IBX-104 a claim whose answer was lost is repeated; what the lost one took is leased, and comes back in time", async () => {
      const { inbox, on, owner, clock } = await context.freshInbox();
      const { db } = context.database();
      const messages = context.messages(2);
      await inbox.enqueue(messages);
      const losing = on(watched(db, [{ loseAnswer: brokenConnection(db) }]));
      const claimed = await losing.claim({ owner, batchSize: 1 });
      expect(claimed).toHaveLength(1);
      expect((await inbox.ack(owner, claimed)).changed).toHaveLength(1);
      expect(await inbox.claim({ owner: newOwnerToken() })).toEqual([]);

      clock.advance(60_000);
      const rest = await inbox.claim({ owner: newOwnerToken() });
      expect(keysOf([...claimed, ...rest])).toEqual(keysOf(messages));
    });

    it("IBX-104 a settlement whose answer was lost takes effect once", async () => {
      const { inbox, on, owner, claimed } = await holding(context, 4);
      const { db } = context.database();
      const losing = () => on(watched(db, [{ loseAnswer: brokenConnection(db) }]));
      const [a, b, c, d] = claimed;
      await losing().ack(owner, [a!]);
      await losing().abandon(owner, [b!]);
      await losing().fail(owner, [c!], "no");
      await losing().renew(owner, [d!], 60_000);
      expect(await stored(inbox, a!)).toMatchObject({ state: "Done", processedBy: owner });
      expect(await stored(inbox, b!)).toMatchObject({ state: "Processing", attempt: 1, owner: null });
      expect(await stored(inbox, c!)).toMatchObject({ state: "Dead", attempt: 1 });
      expect(await stored(inbox, d!)).toMatchObject({ state: "Processing", attempt: 0, owner });
    });

    it("IBX-104 a fault that will not pass is not repeated, and one that stays is given to the caller in the end", async () => {
      const { inbox, on } = await context.freshInbox();
      const { db } = context.database();
      const permanent = Object.assign(new Error("disk full"), { code: "XX000" });
      const broken = watched(db, [{ fail: permanent }]);
      const message = context.message();
      await expect(on(broken).receive(message)).rejects.toBe(permanent);
      expect(broken.calls).toEqual(["receive"]);

      const fault = deadlock(db);
      const stuck = watched(
        db,
        Array.from({ length: 50 }, () => ({ fail: fault })),
      );
      await expect(on(stuck).receive(message)).rejects.toBe(fault);
      expect(stuck.calls.length).toBeGreaterThan(1);
      expect(await inbox.get(keyOf(message))).toBeNull();
    });
  });
}
