import { describe, expect, it } from "vitest";
import { ArgumentRangeError, InvalidArgumentError } from "../../errors.js";
import type { Inbox, IncomingMessage } from "../../inbox/inbox.js";
import type { InboxKey, InboxMessage } from "../../queue/message.js";
import { newOwnerToken, type OwnerToken } from "../../queue/owner-token.js";
import {
  type FreshInbox,
  type FreshInboxOptions,
  type InboxContext,
  keyOf,
  keysOf,
  stored,
  watched,
} from "./support.js";

export interface DeadLetter extends InboxKey {
  readonly reason: string;
}

export interface Holding extends FreshInbox {
  /** What `owner` holds, in the order of arrival. */
  readonly claimed: readonly InboxMessage[];
  /** What `onDead` was told. */
  readonly dead: readonly DeadLetter[];
}

/** An inbox whose `owner` holds `count` messages. */
export async function holding(
  context: InboxContext,
  count: number,
  options: FreshInboxOptions = {},
  overrides: Partial<IncomingMessage> = {},
): Promise<Holding> {
  const dead: DeadLetter[] = [];
  const fresh = await context.freshInbox({
    onDead: ({ message, reason }) => {
      dead.push({ ...keyOf(message), reason });
    },
    ...options,
  });
  const { inbox, owner } = fresh;
  await inbox.enqueue(context.messages(count, overrides));
  const claimed = count === 0 ? [] : await inbox.claim({ owner, batchSize: count });
  expect(claimed).toHaveLength(count);
  return { ...fresh, dead, claimed };
}

/** What an owner can do with what it holds, called alike. */
export const verbs = {
  ack: (inbox: Inbox, owner: OwnerToken, keys: readonly InboxKey[]) => inbox.ack(owner, keys),
  abandon: (inbox: Inbox, owner: OwnerToken, keys: readonly InboxKey[]) => inbox.abandon(owner, keys),
  fail: (inbox: Inbox, owner: OwnerToken, keys: readonly InboxKey[]) => inbox.fail(owner, keys, "no"),
  release: (inbox: Inbox, owner: OwnerToken, keys: readonly InboxKey[]) => inbox.release(owner, keys),
  renew: (inbox: Inbox, owner: OwnerToken, keys: readonly InboxKey[]) => inbox.renew(owner, keys, 45_000),
} as const;
export type Verb = keyof typeof verbs;
export const verbNames = Object.keys(verbs) as Verb[];

const nothing = { changed: [], lost: [], dead: [] };

export function settleTests(context: InboxContext): void {
  /** A foreign and a stale owner change nothing, are told so, and get no error. */
  const changesNothingForOthers = async (verb: Verb) => {
    const { inbox, owner, clock, dead, claimed } = await holding(context, 1);
    const [message] = claimed;
    const before = await stored(inbox, message!);
    const foreign = await verbs[verb](inbox, newOwnerToken(), claimed);
    expect(foreign).toMatchObject({ changed: [], dead: [] });
    expect(keysOf(foreign.lost)).toEqual(keysOf(claimed));
    expect(await stored(inbox, message!)).toEqual(before);

    clock.advance(60_000); // the lease is over, and another worker has the message now
    const heir = newOwnerToken();
    const [again] = await inbox.claim({ owner: heir });
    const stale = await verbs[verb](inbox, owner, claimed);
    expect(stale).toMatchObject({ changed: [], dead: [] });
    expect(keysOf(stale.lost)).toEqual(keysOf(claimed));
    expect(await stored(inbox, message!)).toEqual(again);
    expect(dead).toEqual([]);
    expect((await inbox.ack(heir, [again!])).changed).toHaveLength(1);
  };

  /** Keys that nobody ever sent are answered as lost, and the rest of the list is settled. */
  const passesOverUnknown = async (verb: Verb) => {
    const { inbox, owner, claimed } = await holding(context, 1);
    const unknown = keyOf(context.message());
    const result = await verbs[verb](inbox, owner, [unknown, keyOf(claimed[0]!)]);
    expect(keysOf(result.changed)).toEqual(keysOf(claimed));
    expect(keysOf(result.lost)).toEqual(keysOf([unknown]));
    expect(await verbs[verb](inbox, owner, [unknown])).toEqual({ changed: [], lost: [unknown], dead: [] });
    expect(await inbox.get(unknown)).toBeNull();
  };

  /** No list is an error; an empty one asks the database nothing. */
  const checksTheList = async (verb: Verb) => {
    const { owner, on } = await context.freshInbox();
    const db = watched(context.database().db);
    const inbox = on(db);
    for (const wrong of [null, undefined, "x", 7, {}, new Set()]) {
      const call = async () => verbs[verb](inbox, owner, wrong as unknown as InboxKey[]);
      await expect(call, String(wrong)).rejects.toBeInstanceOf(InvalidArgumentError);
    }
    expect(await verbs[verb](inbox, owner, [])).toEqual(nothing);
    expect(db.calls).toEqual([]);
  };

  /** What is over stays over: no lease, no reaper and no time brings it back. */
  const neverComesBack = async (verb: "ack" | "fail") => {
    const { inbox, owner, clock, claimed } = await holding(context, 3);
    await verbs[verb](inbox, owner, claimed);
    expect(await inbox.claim({ owner: newOwnerToken() })).toEqual([]);
    clock.advance(86_400_000);
    expect(await inbox.reapExpired()).toEqual({ reaped: 0, dead: 0, more: false });
    expect(await inbox.claim({ owner: newOwnerToken() })).toEqual([]);
  };

  describe("settle", () => {
    it("IBX-044 ack makes the messages Done, with the time and the owner", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 2);
      clock.advance(1_234);
      const result = await inbox.ack(owner, claimed);

      expect(keysOf(result.changed)).toEqual(keysOf(claimed));
      expect(result).toMatchObject({ lost: [], dead: [] });
      for (const message of claimed) {
        const done = { state: "Done", processedAt: clock(), processedBy: owner, attempt: 0 };
        expect(await stored(inbox, message)).toMatchObject(done);
        expect(await inbox.alreadyProcessed(keyOf(message))).toBe(true);
      }
    });

    it("IBX-044 ack takes plain keys, claimed messages and both in one list", async () => {
      const { inbox, owner, claimed } = await holding(context, 3);
      const mixed = [keyOf(claimed[0]!), claimed[1]!, keyOf(claimed[2]!)];
      expect(keysOf((await inbox.ack(owner, mixed)).changed)).toEqual(keysOf(claimed));
      for (const message of claimed) expect((await stored(inbox, message)).state).toBe("Done");
    });

    it("IBX-044 ADD-04 ack in a transaction commits or rolls back with it, for plain keys as for claimed messages", async () => {
      const { inbox, owner, claimed } = await holding(context, 2);
      const mixed = [claimed[0]!, keyOf(claimed[1]!)];
      const undone = inbox.transaction(async (tx) => {
        expect((await inbox.ack(owner, mixed, { tx })).changed).toHaveLength(2);
        throw new Error("the business failed");
      });
      await expect(undone).rejects.toThrow("the business failed");
      for (const message of claimed) expect(await stored(inbox, message)).toEqual(message);

      await inbox.transaction((tx) => inbox.ack(owner, mixed, { tx }));
      for (const message of claimed) expect((await stored(inbox, message)).state).toBe("Done");
    });

    it("IBX-045 ack changes only what its owner holds", () => changesNothingForOthers("ack"));

    it("IBX-045 ack takes its own of a mixed batch and answers the others as lost", async () => {
      const { inbox, owner } = await context.freshInbox();
      await inbox.enqueue(context.messages(4));
      const mine = await inbox.claim({ owner, batchSize: 2 });
      const other = newOwnerToken();
      const theirs = await inbox.claim({ owner: other, batchSize: 2 });
      const result = await inbox.ack(owner, [...mine, ...theirs]);

      expect(keysOf(result.changed)).toEqual(keysOf(mine));
      expect(keysOf(result.lost)).toEqual(keysOf(theirs));
      for (const message of theirs) expect(await stored(inbox, message)).toEqual(message);
      expect((await inbox.ack(other, theirs)).changed).toHaveLength(2);
    });

    it("IBX-045 an owner token means the same in capitals", async () => {
      const { inbox, owner, claimed } = await holding(context, 1);
      const result = await inbox.ack(owner.toUpperCase() as OwnerToken, claimed);
      expect(result.changed).toHaveLength(1);
    });

    it("IBX-046 ack passes over keys that do not exist", () => passesOverUnknown("ack"));

    it("IBX-046 a second ack changes nothing and throws nothing", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1);
      await inbox.ack(owner, claimed);
      const before = await stored(inbox, claimed[0]!);
      clock.advance(1_000);
      expect(keysOf((await inbox.ack(owner, claimed)).lost)).toEqual(keysOf(claimed));
      expect(await stored(inbox, claimed[0]!)).toEqual(before);
    });

    it("IBX-047 what was acked is never claimed again", () => neverComesBack("ack"));

    it("IBX-048 ack refuses a missing list and does nothing for an empty one", () => checksTheList("ack"));

    it("IBX-049 ack takes owner and lock off the message", async () => {
      const { inbox, owner, claimed } = await holding(context, 1);
      expect(await stored(inbox, claimed[0]!)).toMatchObject({ owner, lockedUntil: expect.any(Date) });
      await inbox.ack(owner, claimed);
      expect(await stored(inbox, claimed[0]!)).toMatchObject({ owner: null, lockedUntil: null });
    });

    it("IBX-050 abandon takes owner and lock off the message, which stays Processing", async () => {
      const { inbox, owner, claimed } = await holding(context, 1);
      const result = await inbox.abandon(owner, claimed);
      expect(keysOf(result.changed)).toEqual(keysOf(claimed));
      const free = { state: "Processing", owner: null, lockedUntil: null };
      expect(await stored(inbox, claimed[0]!)).toMatchObject(free);
    });

    it("IBX-051 abandon counts one attempt for each message, each time", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 2);
      for (const attempt of [1, 2, 3]) {
        await inbox.abandon(owner, claimed);
        for (const message of claimed) expect((await stored(inbox, message)).attempt).toBe(attempt);
        clock.advance(60_000);
        const again = await inbox.claim({ owner });
        expect(again.map((message) => message.attempt)).toEqual([attempt, attempt]);
      }
    });

    it("IBX-052 without a delay abandon waits as long as the attempt's back-off", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1);
      await inbox.abandon(owner, claimed);
      const { nextAttemptAt } = await stored(inbox, claimed[0]!);
      expect(nextAttemptAt.getTime() - clock().getTime()).toBe(2_000);
    });

    it("IBX-053 a delay replaces the back-off: the call's, or each message's own", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 3);
      const [a, b, c] = claimed;
      const entries = [{ message: a!, delayMs: 100 }, { message: keyOf(b!), error: "e" }, c!];
      const result = await inbox.abandon(owner, entries, { delayMs: 3_600_000 });
      expect(keysOf(result.changed)).toEqual(keysOf(claimed));
      const waits = await Promise.all(
        claimed.map(async (message) => (await stored(inbox, message)).nextAttemptAt.getTime()),
      );
      expect(waits.map((at) => at - clock().getTime())).toEqual([100, 3_600_000, 3_600_000]);
      for (const message of claimed) expect((await stored(inbox, message)).attempt).toBe(1);
    });

    it("IBX-054 abandon changes only what its owner holds", () => changesNothingForOthers("abandon"));

    it("IBX-055 abandon passes over keys that do not exist", () => passesOverUnknown("abandon"));

    it("IBX-056 an abandoned message is claimable when its back-off or delay is over, and not before", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 2);
      const [slow, quick] = claimed;
      await inbox.abandon(owner, [slow!, { message: quick!, delayMs: 700 }]);
      clock.advance(699);
      expect(await inbox.claim({ owner: newOwnerToken() })).toEqual([]);
      clock.advance(1);
      expect(keysOf(await inbox.claim({ owner: newOwnerToken() }))).toEqual(keysOf([quick!]));
      clock.advance(1_299);
      expect(await inbox.claim({ owner: newOwnerToken() })).toEqual([]);
      clock.advance(1);
      expect(keysOf(await inbox.claim({ owner: newOwnerToken() }))).toEqual(keysOf([slow!]));
    });

    it("IBX-057 abandon records the error: the call's, or each message's own", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 3);
      const [a, b, c] = claimed;
      const entries = [{ message: a!, error: "its own 😀 'quoted'" }, b!, { message: c!, error: null }];
      await inbox.abandon(owner, entries, { error: "of the call" });
      const errors = () =>
        Promise.all(claimed.map(async (message) => (await stored(inbox, message)).lastError));
      expect(await errors()).toEqual(["its own 😀 'quoted'", "of the call", "of the call"]);

      clock.advance(60_000); // an abandon without an error keeps the last one known
      await inbox.abandon(owner, await inbox.claim({ owner }));
      expect(await errors()).toEqual(["its own 😀 'quoted'", "of the call", "of the call"]);
    });

    it("IBX-057 an empty error is no error, and a very long or malformed one is made readable", async () => {
      const { inbox, owner, claimed } = await holding(context, 2);
      const [a, b] = claimed;
      const malformed = `a\0b\uD800${"x".repeat(100_000)}`;
      await inbox.abandon(owner, [
        { message: a!, error: "" },
        { message: b!, error: malformed },
      ]);
      expect((await stored(inbox, a!)).lastError).toBeNull();
      const { lastError } = await stored(inbox, b!);
      expect(lastError).toMatch(/^a\uFFFDb\uFFFDx+$/);
      expect(lastError!.length).toBeLessThan(10_000);
    });

    it("IBX-058 a delay of zero, below it or beyond a year is out of range, and changes nothing", async () => {
      const { inbox, owner, claimed } = await holding(context, 1);
      const [message] = claimed;
      const wrong = [0, -1, -0.5, Number.NaN, Number.POSITIVE_INFINITY, 400 * 86_400_000, "5"];
      for (const delayMs of wrong as number[]) {
        const call = async () => inbox.abandon(owner, claimed, { delayMs });
        await expect(call, `${delayMs}`).rejects.toBeInstanceOf(ArgumentRangeError);
        const own = async () => inbox.abandon(owner, [{ message: message!, delayMs }]);
        await expect(own, `${delayMs} of its own`).rejects.toBeInstanceOf(ArgumentRangeError);
      }
      expect(await stored(inbox, message!)).toEqual(message);
    });

    it("IBX-059 abandon refuses a missing list and does nothing for an empty one", () =>
      checksTheList("abandon"));

    it("IBX-060 fail makes the messages Dead at once, whatever attempts are left, and tells onDead", async () => {
      const { inbox, owner, dead, claimed } = await holding(context, 2);
      const result = await inbox.fail(owner, [claimed[0]!, keyOf(claimed[1]!)], "cannot be parsed");

      expect(keysOf(result.changed)).toEqual(keysOf(claimed));
      expect(keysOf(result.dead)).toEqual(keysOf(claimed));
      expect(result.lost).toEqual([]);
      for (const message of claimed) expect((await stored(inbox, message)).state).toBe("Dead");
      expect(keysOf(dead)).toEqual(keysOf(claimed));
      expect(new Set(dead.map((letter) => letter.reason))).toEqual(new Set(["cannot be parsed"]));
    });

    it("IBX-060 an onDead that throws is logged, and the messages are dead all the same", async () => {
      const { inbox, owner, logs, claimed } = await holding(context, 2, {
        onDead: () => Promise.reject(new Error("the alarm is broken")),
      });
      expect((await inbox.fail(owner, claimed, "no")).changed).toHaveLength(2);
      const errors = logs.filter((line) => line.level === "error");
      expect(errors.map((line) => line.fields.messageId).sort()).toEqual(
        claimed.map((message) => message.messageId).sort(),
      );
    });

    it("IBX-061 fail records the error: any text, cut to what can be read, an empty one as none", async () => {
      const { inbox, owner, claimed } = await holding(context, 3);
      const [a, b, c] = claimed;
      await inbox.fail(owner, [a!], "no such order 😀 'quoted'");
      await inbox.fail(owner, [b!], `a\0b\uD800${"x".repeat(100_000)}`);
      await inbox.fail(owner, [c!], "");
      expect((await stored(inbox, a!)).lastError).toBe("no such order 😀 'quoted'");
      expect((await stored(inbox, b!)).lastError).toMatch(/^a\uFFFDb\uFFFDx{100,9999}$/);
      expect((await stored(inbox, c!)).lastError).toBeNull();
    });

    it("IBX-062 fail changes only what its owner holds", () => changesNothingForOthers("fail"));

    it("IBX-063 fail passes over keys that do not exist", () => passesOverUnknown("fail"));

    it("IBX-064 what failed is never claimed again", () => neverComesBack("fail"));

    it("IBX-065 fail takes owner and lock off the message", async () => {
      const { inbox, owner, claimed } = await holding(context, 1);
      expect(await stored(inbox, claimed[0]!)).toMatchObject({ owner, lockedUntil: expect.any(Date) });
      await inbox.fail(owner, claimed, "no");
      expect(await stored(inbox, claimed[0]!)).toMatchObject({ owner: null, lockedUntil: null });
    });

    it("IBX-066 fail refuses a missing list and does nothing for an empty one", () => checksTheList("fail"));

    it("IBX-067 fail refuses a missing error, and an Error in its place", async () => {
      const { inbox, owner, claimed } = await holding(context, 1);
      for (const wrong of [null, undefined, 7, new Error("x")]) {
        const call = async () => inbox.fail(owner, claimed, wrong as unknown as string);
        await expect(call, String(wrong)).rejects.toBeInstanceOf(InvalidArgumentError);
      }
      expect(await stored(inbox, claimed[0]!)).toEqual(claimed[0]);
    });

    it("release and renew refuse a missing list and do nothing for an empty one", async () => {
      await checksTheList("release");
      await checksTheList("renew");
    });

    it("release changes only what its owner holds, and passes over keys that do not exist", async () => {
      await changesNothingForOthers("release");
      await passesOverUnknown("release");
    });

    it("release hands back at no attempt, claimable at once", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 3);
      clock.advance(1_000);
      const result = await inbox.release(owner, [claimed[0]!, keyOf(claimed[1]!), claimed[2]!]);
      expect(keysOf(result.changed)).toEqual(keysOf(claimed));
      for (const message of claimed) {
        const free = { state: "Processing", attempt: 0, owner: null, lockedUntil: null, lastError: null };
        expect(await stored(inbox, message)).toMatchObject({ ...free, nextAttemptAt: clock() });
      }
      const again = await inbox.claim({ owner: newOwnerToken() });
      expect(keysOf(again)).toEqual(keysOf(claimed));
      expect(again.every((message) => !message.afterCrash && message.attempt === 0)).toBe(true);
    });

    it("IBX-001 two sources with the same messageId never touch each other, by key or as claimed", async () => {
      for (const verb of verbNames) {
        const { inbox, owner } = await context.freshInbox();
        const left = context.message({ source: "left", messageId: "same" });
        await inbox.enqueue([left, { ...left, source: "right" }]);
        const claimed = await inbox.claim({ owner });
        const one = claimed.find((message) => message.source === "left")!;
        const other = claimed.find((message) => message.source === "right")!;
        const result = await verbs[verb](inbox, owner, [keyOf(one)]);
        expect(keysOf(result.changed), verb).toEqual(keysOf([one]));
        expect(await stored(inbox, other), verb).toEqual(other);

        const second = await verbs[verb](inbox, owner, [other]);
        expect(keysOf(second.changed), verb).toEqual(keysOf([other]));
      }
    });

    it("a message named twice, by key and as claimed, counts once", async () => {
      for (const verb of verbNames) {
        const { inbox, owner, dead, claimed } = await holding(context, 1);
        const [message] = claimed;
        const list = [keyOf(message!), message!, message!, keyOf(message!)];
        const result = await verbs[verb](inbox, owner, list);
        expect(keysOf(result.changed), verb).toEqual(keysOf(claimed));
        expect(result.lost, verb).toEqual([]);
        const attempt = { ack: 0, abandon: 1, fail: 1, release: 0, renew: 0 }[verb];
        expect((await stored(inbox, message!)).attempt, verb).toBe(attempt);
        expect(dead, verb).toHaveLength(verb === "fail" ? 1 : 0);

        const unknown = keyOf(context.message());
        expect((await verbs[verb](inbox, owner, [unknown, unknown])).lost, verb).toEqual([unknown]);
      }
    });

    it("what was settled or handed back is no longer the owner's", async () => {
      for (const first of ["ack", "abandon", "fail", "release"] as const) {
        const { inbox, owner, claimed } = await holding(context, 1);
        await verbs[first](inbox, owner, claimed);
        const before = await stored(inbox, claimed[0]!);
        for (const second of verbNames) {
          const result = await verbs[second](inbox, owner, claimed);
          expect(result.changed, `${second} after ${first}`).toEqual([]);
          expect(keysOf(result.lost), `${second} after ${first}`).toEqual(keysOf(claimed));
          expect(await stored(inbox, claimed[0]!), `${second} after ${first}`).toEqual(before);
        }
      }
    });

    it("IBX-130 keys and owner tokens that cannot be are refused by rejecting, and nothing is settled", async () => {
      const { inbox, owner, claimed } = await holding(context, 1);
      const badKeys = [null, "x", {}, { source: "test" }, { source: "", messageId: "m" }];
      const badOwners = ["00000000-0000-0000-0000-000000000000", "", "worker-1", undefined, null];
      for (const verb of verbNames) {
        for (const key of badKeys) {
          const answer = settled(() => verbs[verb](inbox, owner, [claimed[0]!, key as InboxKey]));
          expect(await answer, `${verb} ${JSON.stringify(key)}`).toBe("rejected InvalidArgumentError");
        }
        for (const bad of badOwners) {
          const answer = settled(() => verbs[verb](inbox, bad as OwnerToken, claimed));
          expect(await answer, `${verb} by ${bad}`).toBe("rejected InvalidArgumentError");
        }
      }
      expect(await stored(inbox, claimed[0]!)).toEqual(claimed[0]);
    });
  });
}

/** How a call ended; one that throws before there is a promise escapes a caller's `.catch`. */
async function settled(call: () => Promise<unknown>): Promise<string> {
  let answer: Promise<unknown>;
  try {
    answer = call();
  } catch (error) {
    return `threw ${(error as Error).name}`;
  }
  return answer.then(
    () => "resolved",
    (error: Error) => `rejected ${error.name}`,
  );
}
