import { describe, expect, it } from "vitest";
import { ArgumentRangeError, InvalidArgumentError } from "../../../src/errors.js";
import { newOwnerToken, type OwnerToken } from "../../../src/queue/leases.js";
import { fieldsOf } from "../support/recording-logger.js";
import { watched } from "../support/watched.js";
import {
  type AnyKey,
  messages,
  outcomeOf,
  type QueueContext,
  type Verb,
  verbNames,
  verbs,
} from "./support.js";

const nothing = { changed: [], lost: [], dead: [] };

/** What ack, abandon, fail and release do, and to which messages. */
export function settleTests(context: QueueContext): void {
  const { database, queue, ids, keyOf, idOf, unknownKey, badKeys, states } = context;

  /** Another owner, and one whose lease has expired, change nothing: the messages are returned as lost. */
  const changesNothingForOthers = async (verb: Verb) => {
    const { store, owner, clock, dead, held, stored } = await queue();
    const claimed = await held(1);
    const before = await stored(claimed[0]!);
    const foreign = await verbs[verb](store, newOwnerToken(), claimed);
    expect(foreign).toMatchObject({ changed: [], dead: [] });
    expect(ids(foreign.lost)).toEqual(ids(claimed));
    expect(await stored(claimed[0]!)).toEqual(before);

    clock.advance(60_000); // the lease is over, and another worker claims the message
    const other = newOwnerToken();
    const [again] = await store.claim({ owner: other });
    const stale = await verbs[verb](store, owner, claimed);
    expect(stale).toMatchObject({ changed: [], dead: [] });
    expect(ids(stale.lost)).toEqual(ids(claimed));
    expect(await stored(claimed[0]!)).toEqual(again);
    expect(dead).toEqual([]);
    expect((await store.ack(other, [again!])).changed).toHaveLength(1);
  };

  /** Unknown keys are returned as lost, and the rest of the list is settled. */
  const passesOverUnknown = async (verb: Verb) => {
    const { store, owner, held } = await queue();
    const claimed = await held(1);
    const unknown = unknownKey();
    const result = await verbs[verb](store, owner, [unknown, keyOf(claimed[0]!)]);
    expect(ids(result.changed)).toEqual(ids(claimed));
    expect(ids(result.lost)).toEqual(ids([unknown]));
    expect(await verbs[verb](store, owner, [unknown])).toEqual({ changed: [], lost: [unknown], dead: [] });
    expect(await store.get(unknown)).toBeNull();
  };

  /** A missing list is an error. An empty one costs no round trip. */
  const checksTheList = async (verb: Verb) => {
    const { owner, on } = await queue();
    const db = watched(database().db);
    const store = on(db);
    for (const wrong of [null, undefined, "x", 7, {}, new Set()]) {
      const call = async () => verbs[verb](store, owner, wrong as unknown as AnyKey[]);
      await expect(call, `${verb} ${String(wrong)}`).rejects.toBeInstanceOf(InvalidArgumentError);
    }
    expect(await verbs[verb](store, owner, [])).toEqual(nothing);
    expect(db.calls).toEqual([]);
  };

  describe("the time of the last attempt", () => {
    it("MSG-17 is that of the abandon, the failure, the end of a lost lease or the ack, and a replay keeps it", async () => {
      const { store, owner, clock, held, stored } = await queue();
      const [message] = await held(1);
      const last = async () => (await stored(message!)).lastAttemptAt;
      expect(message!.lastAttemptAt).toBeNull();
      expect(await last()).toBeNull();

      clock.advance(1_000);
      const abandonedAt = clock();
      await store.abandon(owner, [message!], { delayMs: 1_000 });
      expect(await last()).toEqual(abandonedAt);
      clock.advance(1_000);
      const [again] = await store.claim({ owner, leaseMs: 10_000 });
      expect(again!.lastAttemptAt).toEqual(abandonedAt);

      clock.advance(500);
      await store.abandon(owner, [{ message: again!, delayMs: 500, costsAttempt: false }]); // it was not tried
      expect(await last()).toEqual(abandonedAt);
      clock.advance(500);
      const [lost] = await store.claim({ owner, leaseMs: 10_000 });
      clock.advance(10_500);
      expect(await store.reapExpired()).toMatchObject({ reaped: 1 });
      expect(await last()).toEqual(lost!.lockedUntil);

      clock.advance(60_000);
      await store.fail(owner, await store.claim({ owner }), "410");
      const failedAt = clock();
      expect(await last()).toEqual(failedAt);
      expect((await store.list()).messages[0]!.lastAttemptAt).toEqual(failedAt);
      clock.advance(1_000);
      await store.replay([message!]);
      expect(await last()).toEqual(failedAt);
      await store.ack(owner, await store.claim({ owner }));
      expect(await stored(message!)).toMatchObject({ lastAttemptAt: clock(), processedAt: clock() });
    });

    it("MSG-17 a message that expires before its first attempt has none", async () => {
      const { store, clock, stored } = await queue();
      const key = await store.addOne({ topic: "t", payload: "", expiresAt: new Date(clock().getTime() + 1) });
      clock.advance(1);
      expect(await store.reapExpired()).toMatchObject({ dead: 1 });
      expect(await stored(key)).toMatchObject({ state: states.dead, lastAttemptAt: null });
    });
  });

  describe("ack", () => {
    it("IBX-044 IBX-049 OBX-030 OBX-031 makes the messages Done, records when, and clears owner and lease", async () => {
      const { store, owner, clock, held, stored } = await queue();
      const claimed = await held(2);
      clock.advance(1_234);
      const result = await store.ack(owner, [claimed[0]!, keyOf(claimed[1]!)]);
      expect(ids(result.changed)).toEqual(ids(claimed));
      expect(result).toMatchObject({ lost: [], dead: [] });
      const done = { state: states.done, processedAt: clock(), attempt: 0, owner: null, lockedUntil: null };
      for (const message of claimed) expect(await stored(message)).toMatchObject(done);
    });

    it("OBX-032 records the worker: the owner's token, or the name given to the store", async () => {
      const plain = await queue();
      const [first] = await plain.held(1);
      await plain.store.ack(plain.owner, [first!]);
      expect((await plain.stored(first!)).processedBy).toBe(plain.owner);

      const processedBy = `dispatcher ${"ü".repeat(89)}`;
      const named = await queue({ processedBy });
      const [second] = await named.held(1);
      await named.store.ack(named.owner, [second!]);
      expect((await named.stored(second!)).processedBy).toBe(processedBy);
    });

    it("IBX-045 OBX-033 changes only messages that its owner holds", () => changesNothingForOthers("ack"));

    it("IBX-045 OBX-033 acks its own messages of a mixed batch and returns the others as lost", async () => {
      const { store, owner, stored } = await queue();
      await store.add(messages(4));
      const mine = await store.claim({ owner, batchSize: 2 });
      const other = newOwnerToken();
      const tothers = await store.claim({ owner: other, batchSize: 2 });
      const result = await store.ack(owner, [...mine, ...tothers]);
      expect(ids(result.changed)).toEqual(ids(mine));
      expect(ids(result.lost)).toEqual(ids(tothers));
      for (const message of tothers) expect(await stored(message)).toEqual(message);
      expect((await store.ack(other, tothers)).changed).toHaveLength(2);
    });

    it("IBX-045 OBX-033 an owner token in capitals is the same owner", async () => {
      const { store, owner, held } = await queue();
      const result = await store.ack(owner.toUpperCase() as OwnerToken, await held(1));
      expect(result.changed).toHaveLength(1);
    });

    it("IBX-046 OBX-034 passes over keys that do not exist", () => passesOverUnknown("ack"));

    it("IBX-048 OBX-036 refuses a missing list and does nothing for an empty one", () =>
      checksTheList("ack"));

    it("IBX-045 OBX-033 another owner changes nothing in a transaction either", async () => {
      const { store, held, stored } = await queue();
      const [message] = await held(1);
      const caller = await database().begin();
      const result = await store.ack(newOwnerToken(), [message!], { tx: caller.tx });
      await caller.commit();
      expect(result.changed).toEqual([]);
      expect(await stored(message!)).toEqual(message);
    });
  });

  describe("abandon", () => {
    it("IBX-050 OBX-037 clears owner and lease, and the message waits again", async () => {
      const { store, owner, held, stored } = await queue();
      const claimed = await held(1);
      const result = await store.abandon(owner, claimed);
      expect(ids(result.changed)).toEqual(ids(claimed));
      const free = { state: states.waiting, owner: null, lockedUntil: null };
      expect(await stored(claimed[0]!)).toMatchObject(free);
    });

    it("IBX-051 OBX-038 counts one attempt for each message, each time", async () => {
      const { store, owner, clock, held, stored } = await queue();
      const claimed = await held(2);
      for (const attempt of [1, 2, 3]) {
        await store.abandon(owner, claimed);
        for (const message of claimed) expect((await stored(message)).attempt).toBe(attempt);
        clock.advance(60_000);
        const again = await store.claim({ owner });
        expect(again.map((message) => message.attempt)).toEqual([attempt, attempt]);
      }
    });

    it("IBX-053 the call's delay, or each message's own, replaces the back-off", async () => {
      const { store, owner, clock, held, stored } = await queue();
      const claimed = await held(3);
      const [a, b, c] = claimed;
      const entries = [{ message: a!, delayMs: 100 }, { message: keyOf(b!), error: "e" }, c!];
      const result = await store.abandon(owner, entries, { delayMs: 3_600_000 });
      expect(ids(result.changed)).toEqual(ids(claimed));
      const times = await Promise.all(
        claimed.map(async (message) => (await stored(message)).nextAttemptAt.getTime()),
      );
      expect(times.map((at) => at - clock().getTime())).toEqual([100, 3_600_000, 3_600_000]);
      for (const message of claimed) expect((await stored(message)).attempt).toBe(1);
    });

    it("IBX-054 OBX-040 changes only messages that its owner holds", () =>
      changesNothingForOthers("abandon"));

    it("IBX-055 OBX-041 passes over keys that do not exist", () => passesOverUnknown("abandon"));

    it("IBX-042 IBX-056 OBX-029 OBX-042 an abandoned message is claimable when its back-off or delay is over, and not before", async () => {
      const { store, owner, clock, held } = await queue();
      const [slow, quick] = await held(2);
      await store.abandon(owner, [slow!, { message: quick!, delayMs: 700 }]);
      clock.advance(699);
      expect(await store.claim({ owner: newOwnerToken() })).toEqual([]);
      clock.advance(1);
      expect(ids(await store.claim({ owner: newOwnerToken() }))).toEqual(ids([quick!]));
      clock.advance(1_299);
      expect(await store.claim({ owner: newOwnerToken() })).toEqual([]);
      clock.advance(1);
      expect(ids(await store.claim({ owner: newOwnerToken() }))).toEqual(ids([slow!]));
    });

    it("IBX-057 OBX-043 stores the call's error or each message's own; without one it keeps the last", async () => {
      const { store, owner, clock, held, stored } = await queue();
      const claimed = await held(3);
      const [a, b, c] = claimed;
      const entries = [{ message: a!, error: "its own 😀 'quoted'" }, b!, { message: c!, error: null }];
      await store.abandon(owner, entries, { error: "of the call" });
      const errors = () => Promise.all(claimed.map(async (message) => (await stored(message)).lastError));
      expect(await errors()).toEqual(["its own 😀 'quoted'", "of the call", "of the call"]);

      clock.advance(60_000);
      await store.abandon(owner, await store.claim({ owner }));
      expect(await errors()).toEqual(["its own 😀 'quoted'", "of the call", "of the call"]);
    });

    it("IBX-057 OBX-043 an empty error is stored as none, a long one is cut, a malformed one made readable", async () => {
      const { store, owner, held, stored } = await queue();
      const [a, b] = await held(2);
      await store.abandon(owner, [
        { message: a!, error: "" },
        { message: b!, error: `a\0b\uD800${"x".repeat(100_000)}` },
      ]);
      expect((await stored(a!)).lastError).toBeNull();
      const { lastError } = await stored(b!);
      expect(lastError).toMatch(/^a\uFFFDb\uFFFDx+$/);
      expect(lastError!.length).toBeLessThan(10_000);
    });

    it("IBX-058 a delay of zero or less, or of more than a year, is refused and changes nothing", async () => {
      const { store, owner, held, stored } = await queue();
      const claimed = await held(1);
      const [message] = claimed;
      const wrong = [0, -1, -0.5, Number.NaN, Number.POSITIVE_INFINITY, 400 * 86_400_000, "5"];
      for (const delayMs of wrong as number[]) {
        const call = async () => store.abandon(owner, claimed, { delayMs });
        await expect(call, `${delayMs}`).rejects.toBeInstanceOf(ArgumentRangeError);
        const own = async () => store.abandon(owner, [{ message: message!, delayMs }]);
        await expect(own, `${delayMs} of its own`).rejects.toBeInstanceOf(ArgumentRangeError);
      }
      expect(await stored(message!)).toEqual(message);
    });

    it("IBX-059 OBX-036 refuses a missing list and does nothing for an empty one", () =>
      checksTheList("abandon"));
  });

  describe("fail", () => {
    it("IBX-060 IBX-065 OBX-044 makes the messages dead at once, with attempts left, clears owner and lease, and calls onDead", async () => {
      const { store, owner, dead, held, stored } = await queue();
      const claimed = await held(2);
      const result = await store.fail(owner, [claimed[0]!, keyOf(claimed[1]!)], "cannot be parsed");
      expect(ids(result.changed)).toEqual(ids(claimed));
      expect(ids(result.dead)).toEqual(ids(claimed));
      expect(result.lost).toEqual([]);
      const end = { state: states.dead, attempt: 1, owner: null, lockedUntil: null };
      for (const message of claimed) expect(await stored(message)).toMatchObject(end);
      expect(dead.map(({ id }) => id).sort()).toEqual(ids(claimed));
      expect(new Set(dead.map(({ reason }) => reason))).toEqual(new Set(["cannot be parsed"]));
    });

    it("IBX-060 OBX-044 an onDead that throws or rejects is logged, and the messages are dead anyway", async () => {
      const broken = new Error("the alarm is broken");
      const throwing = () => {
        throw broken;
      };
      for (const onDead of [throwing, () => Promise.reject(broken)]) {
        const { store, owner, held, log } = await queue({ onDead });
        const claimed = await held(2);
        expect((await store.fail(owner, claimed, "no")).changed).toHaveLength(2);
        expect(fieldsOf(log, "error", "onDead failed").map(idOf).sort()).toEqual(ids(claimed));
      }
    });

    it("IBX-061 OBX-045 stores the error: a long one cut, a malformed one made readable, an empty one as none", async () => {
      const { store, owner, held, stored } = await queue();
      const [a, b, c] = await held(3);
      await store.fail(owner, [a!], "no such order 😀 'quoted'");
      await store.fail(owner, [b!], `a\0b\uD800${"x".repeat(100_000)}`);
      await store.fail(owner, [c!], "");
      expect((await stored(a!)).lastError).toBe("no such order 😀 'quoted'");
      expect((await stored(b!)).lastError).toMatch(/^a\uFFFDb\uFFFDx{100,9999}$/);
      expect((await stored(b!)).lastError!.length).toBeLessThan(10_000);
      expect((await stored(c!)).lastError).toBeNull();
    });

    it("IBX-062 OBX-046 changes only messages that its owner holds", () => changesNothingForOthers("fail"));

    it("IBX-063 OBX-047 passes over keys that do not exist", () => passesOverUnknown("fail"));

    it("IBX-066 OBX-036 refuses a missing list and does nothing for an empty one", () =>
      checksTheList("fail"));

    it("IBX-067 refuses an error that is no string, and in the inbox a missing one", async () => {
      const { store, owner, held, stored } = await queue();
      const claimed = await held(1);
      const missing = states.dead === "Dead" ? [null, undefined] : [];
      for (const wrong of [...missing, 7, new Error("x")]) {
        const call = async () => store.fail(owner, claimed, wrong as unknown as string);
        await expect(call, String(wrong)).rejects.toBeInstanceOf(InvalidArgumentError);
      }
      expect(await stored(claimed[0]!)).toEqual(claimed[0]);
    });
  });

  describe("release and renew", () => {
    it.each(["release", "renew"] as const)(
      "FUN-03 %s changes only messages that its owner holds, and passes over keys that do not exist",
      async (verb) => {
        await changesNothingForOthers(verb);
        await passesOverUnknown(verb);
        await checksTheList(verb);
      },
    );

    it("FUN-03 release gives messages back without an attempt, claimable at once", async () => {
      const { store, owner, clock, held, stored } = await queue();
      const claimed = await held(3);
      clock.advance(1_000);
      const result = await store.release(owner, [claimed[0]!, keyOf(claimed[1]!), claimed[2]!]);
      expect(ids(result.changed)).toEqual(ids(claimed));
      for (const message of claimed) {
        const free = {
          state: states.waiting,
          attempt: 0,
          owner: null,
          lockedUntil: null,
          lastError: null,
        };
        const { nextAttemptAt, ...released } = await stored(message);
        expect(released).toMatchObject(free);
        expect(nextAttemptAt.getTime()).toBeLessThanOrEqual(clock().getTime());
      }
      const again = await store.claim({ owner: newOwnerToken() });
      expect(ids(again)).toEqual(ids(claimed));
      expect(again.every((message) => message.crashes === 0 && message.attempt === 0)).toBe(true);
    });

    it("FUN-03 release costs no attempt, however often", async () => {
      const { store, owner, held } = await queue({ retry: { maxAttempts: 2 } });
      const claimed = await held(1);
      for (let n = 0; n < 5; n++) {
        await store.release(owner, claimed);
        expect(await store.claim({ owner })).toMatchObject([{ attempt: 0, state: states.held }]);
      }
    });
  });

  describe("settle", () => {
    it("IBX-045 IBX-054 IBX-062 OBX-036 a message named twice, by key and as claimed, counts once", async () => {
      for (const verb of verbNames) {
        const { store, owner, dead, held, stored } = await queue();
        const claimed = await held(1);
        const [message] = claimed;
        const list = [keyOf(message!), message!, message!, keyOf(message!)];
        const result = await verbs[verb](store, owner, list);
        expect(ids(result.changed), verb).toEqual(ids(claimed));
        expect(result.lost, verb).toEqual([]);
        const attempt = { ack: 0, abandon: 1, fail: 1, release: 0, renew: 0 }[verb];
        expect((await stored(message!)).attempt, verb).toBe(attempt);
        expect(dead, verb).toHaveLength(verb === "fail" ? 1 : 0);

        const unknown = unknownKey();
        expect((await verbs[verb](store, owner, [unknown, unknown])).lost, verb).toEqual([unknown]);
      }
    });

    it("IBX-045 IBX-046 IBX-054 IBX-062 OBX-033 OBX-034 OBX-040 OBX-046 a message that was settled, released or reaped is no longer its owner's", async () => {
      for (const first of ["ack", "abandon", "fail", "release", "reap"] as const) {
        const { store, owner, clock, held, stored } = await queue();
        const claimed = await held(1);
        clock.advance(30_001);
        if (first === "reap") expect((await store.reapExpired()).reaped).toBe(1);
        else await verbs[first](store, owner, claimed);
        const before = await stored(claimed[0]!);
        for (const second of verbNames) {
          const result = await verbs[second](store, owner, claimed);
          expect(result.changed, `${second} after ${first}`).toEqual([]);
          expect(ids(result.lost), `${second} after ${first}`).toEqual(ids(claimed));
          expect(await stored(claimed[0]!), `${second} after ${first}`).toEqual(before);
        }
      }
    });

    it("IBX-048 IBX-059 IBX-066 OBX-036 a list with a malformed key rejects, and nothing is settled", async () => {
      const { store, owner, held, stored } = await queue();
      const [message] = await held(1);
      for (const verb of verbNames) {
        for (const key of badKeys) {
          const end = await outcomeOf(() => verbs[verb](store, owner, [message!, key as AnyKey]));
          expect(end, `${verb} ${JSON.stringify(key)}`).toBe("rejected InvalidArgumentError");
        }
      }
      expect(await stored(message!)).toEqual(message);
    });
  });
}
