import { describe, expect, it } from "vitest";
import { ArgumentRangeError, InvalidArgumentError } from "../../../src/errors.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import type { CallOptions, ListFilter, Page } from "../../../src/queue/work-store.js";
import { statement } from "../../../src/sql/driver.js";
import { gate } from "../support/gate.js";
import { watched } from "../support/watched.js";
import { type AnyKey, type AnyMessage, messages, type QueueContext, type TestQueue } from "./support.js";

/** One message in every state, and in every way to wait. */
export async function oneOfEach({ store, owner, held, clock }: TestQueue) {
  const [crashed] = await held(1, { topic: "crashed" });
  clock.advance(30_001);
  await store.reapExpired();
  const [done] = await held(1, { topic: "done" });
  await store.ack(owner, [done!]);
  const [dead] = await held(1, { topic: "dead" });
  await store.fail(owner, [dead!], "410 Gone: 100%_[x]");
  const [retried] = await held(1, { topic: "retried" });
  await store.abandon(owner, [retried!], { error: "503 Busy" });
  const [leased] = await held(1, { topic: "leased" });
  const fresh = await store.addOne({ topic: "fresh", payload: "" });
  return { crashed: crashed!, done: done!, dead: dead!, retried: retried!, leased: leased!, fresh };
}

/** get, list, stats, replay, and aborted calls. */
export function operationsTests(context: QueueContext): void {
  const { database, queue, ids, keyOf, unknownKey, badKeys, counts, states } = context;

  describe("operations", () => {
    it("ADD-02 a filter that no text can match and a number of attempts out of range are refused", async () => {
      const { store, owner, held } = await queue();
      for (const name of ["topic", "source", "error", "errorGroup"])
        for (const text of ["a\0b", "\ud800", 7, "x".repeat(4_001)])
          await expect(async () => store.list({ [name]: text } as never)).rejects.toBeInstanceOf(
            InvalidArgumentError,
          );
      const [message] = await held(1, { topic: "t" });
      for (const maxAttempts of [2 ** 31, 2 ** 53, 10_001])
        await expect(async () => store.abandon(owner, [message!], { maxAttempts })).rejects.toBeInstanceOf(
          ArgumentRangeError,
        );
    });

    it("ADD-02 get returns the whole message by its key, and null for an unknown one", async () => {
      const { store } = await queue();
      const message = { topic: "t", payload: "p", headers: { a: "b" }, correlationId: "c" };
      const key = await store.addOne(message);
      expect(await store.get(key)).toMatchObject({ ...message, ...key, state: states.waiting });
      expect(await store.get(unknownKey())).toBeNull();
      for (const wrong of badKeys) {
        const call = async () => store.get(wrong as AnyKey);
        await expect(call, JSON.stringify(wrong)).rejects.toBeInstanceOf(InvalidArgumentError);
      }
    });

    it("ADD-02 list filters by state", async () => {
      const made = await queue();
      const { crashed, done, dead, retried, leased, fresh } = await oneOfEach(made);
      const waiting = [crashed, retried, fresh];
      const byState = new Map<string, AnyKey[]>([
        [states.waiting, states.waiting === states.held ? [...waiting, leased] : waiting],
        ...(states.waiting === states.held ? [] : [[states.held, [leased]] as [string, AnyKey[]]]),
        [states.done, [done]],
        [states.dead, [dead]],
      ]);
      for (const [state, expected] of byState) {
        const page = await made.store.list({ state });
        expect(ids(page.messages), state).toEqual(ids(expected));
        expect(new Set(page.messages.map((message) => message.state)), state).toEqual(new Set([state]));
        expect(page.cursor).toBeNull();
      }
      expect(ids((await made.store.list()).messages)).toEqual(ids([...byState.values()].flat()));
    });

    it("ADD-02 list filters by topic, part of the error and age, and by all of them together", async () => {
      const made = await queue();
      const { store, clock } = made;
      const each = await oneOfEach(made);
      clock.advance(60_000);
      const young = await store.addOne({ topic: "fresh", payload: "young" });
      clock.advance(1_000);
      const found = async (filter: ListFilter<string>) => ids((await store.list(filter)).messages);

      expect(await found({ topic: "dead" })).toEqual(ids([each.dead]));
      expect(await found({ topic: "Dead" })).toEqual([]);
      expect(await found({ topic: "dea%" })).toEqual([]);
      expect(await found({ error: "Gone" })).toEqual(ids([each.dead]));
      expect(await found({ error: "100%_[x]" })).toEqual(ids([each.dead]));
      expect(await found({ error: "%" })).toEqual(ids([each.dead]));
      expect(await found({ error: "5_3" })).toEqual([]);
      expect(await found({ newerThanMs: 1_000 })).toEqual(ids([young]));
      expect(await found({ newerThanMs: 999 })).toEqual([]);
      expect(await found({ olderThanMs: 61_001 })).toEqual(ids([each.crashed]));
      expect(await found({ olderThanMs: 91_001 })).toEqual(ids([each.crashed]));
      expect(await found({ olderThanMs: 91_002 })).toEqual([]);
      expect(await found({ olderThanMs: 1_001, topic: "fresh" })).toEqual(ids([each.fresh]));
      const all = { state: states.waiting, topic: "retried", error: "Busy" };
      expect(await found(all)).toEqual(ids([each.retried]));
      expect(await found({ ...all, state: states.dead })).toEqual([]);
      expect(await found({ state: states.done, topic: "retried" })).toEqual([]);
    });

    it("ADD-02 list pages through everything once, in order, 100 at a time by default", async () => {
      const { store } = await queue();
      const added = (await store.add(messages(205))).map((key) => ids([key])[0]);
      const sizes: number[] = [];
      const seen: (string | undefined)[] = [];
      for (let after: number | null = 0; after !== null; ) {
        const page: Page<AnyMessage> = await store.list({ after });
        sizes.push(page.messages.length);
        seen.push(...page.messages.map((message) => ids([message])[0]));
        after = page.cursor;
      }
      expect(sizes).toEqual([100, 100, 5]);
      expect(seen).toEqual(added);

      const filter = { limit: 7, topic: "test", state: states.waiting };
      const small = await store.list(filter);
      expect(small.messages.map((message) => ids([message])[0])).toEqual(added.slice(0, 7));
      const next = await store.list({ ...filter, after: small.cursor! });
      expect(next.messages.map((message) => ids([message])[0])).toEqual(added.slice(7, 14));
    });

    it("ADD-02 list refuses unknown states, and limits, ages and cursors out of range", async () => {
      const { store } = await queue();
      for (const state of [states.dead === "Dead" ? "Failed" : "Dead", "done", ""]) {
        const call = async () => store.list({ state });
        await expect(call, state).rejects.toBeInstanceOf(InvalidArgumentError);
      }
      const wrong: ListFilter<string>[] = [
        ...[0, -1, 1.5, 1_001, Number.NaN].map((limit) => ({ limit })),
        ...[-1, Number.NaN, Number.POSITIVE_INFINITY].map((olderThanMs) => ({ olderThanMs })),
        ...[-1, Number.NaN].map((newerThanMs) => ({ newerThanMs })),
        ...[-1, Number.NaN, 1.5].map((after) => ({ after })),
      ];
      for (const filter of wrong) {
        const call = async () => store.list(filter);
        await expect(call, String(Object.entries(filter))).rejects.toBeInstanceOf(ArgumentRangeError);
      }
    });

    it("ADD-02 stats count each state and the due messages, with the age of the oldest", async () => {
      const made = await queue();
      const { store, clock } = made;
      expect(await store.stats()).toMatchObject({
        counts: counts({}),
        due: 0,
        oldestDueAgeMs: null,
        expired: 0,
      });
      expect(await store.oldestDueAgeMs()).toBeNull();
      await oneOfEach(made);
      // due: the fresh one; the crashed and the abandoned one wait for their back-off
      const expected = counts({ waiting: 3, held: 1, done: 1, dead: 1 });
      expect(await store.stats()).toMatchObject({
        counts: expected,
        phases: { waiting: 1, retrying: 2, running: 1, paused: 0, done: 1, dead: 1, seen: 0 },
        due: 1,
        oldestDueAgeMs: 0,
        expired: 0,
      });
      clock.advance(1_500);
      expect(await store.stats()).toMatchObject({
        counts: expected,
        due: 1,
        oldestDueAgeMs: 1_500,
        expired: 0,
      });
      expect(await store.oldestDueAgeMs()).toBe(1_500);
      clock.advance(8_500);
      expect(await store.stats()).toMatchObject({
        counts: expected,
        due: 3,
        oldestDueAgeMs: 10_000,
        expired: 0,
      });
      expect(await store.oldestDueAgeMs()).toBe(10_000);
      await store.add(messages(1, { dueAt: new Date(clock().getTime() + 1_000) }));
      expect(await store.stats()).toMatchObject({
        due: 3,
        counts: counts({ waiting: 4, held: 1, done: 1, dead: 1 }),
      });
      clock.advance(30_000); // the lease and the back-off after it are over
      expect(await store.stats()).toMatchObject({ due: 5 });
    });

    it("ADD-02 replay makes a dead message claimable at once, with all its attempts, no expiry and its old messageId", async () => {
      const { store, owner, clock, held, stored } = await queue({ retry: { maxAttempts: 2 } });
      const claimed = await held(1, { expiresAt: new Date(clock().getTime() + 3_600_000) });
      await store.abandon(owner, claimed);
      clock.advance(60_000);
      await store.abandon(owner, await store.claim({ owner }));
      expect(await stored(claimed[0]!)).toMatchObject({ state: states.dead, attempt: 2 });

      const result = await store.replay([keyOf(claimed[0]!)]);
      expect(ids(result.changed)).toEqual(ids(claimed));
      expect(result.lost).toEqual([]);
      expect(await stored(claimed[0]!)).toMatchObject({ state: states.waiting, attempt: 0 });
      const { messageId, payload } = claimed[0]!;
      const again = await store.claim({ owner });
      expect(again).toMatchObject([
        { ...keyOf(claimed[0]!), messageId, payload, attempt: 0, expiresAt: null, crashes: 0 },
      ]);
      expect((await store.abandon(owner, again)).dead).toEqual([]);
    });

    it("ADD-02 replay changes only dead messages; the rest is returned as lost and stays as it is", async () => {
      const made = await queue();
      const { dead, ...others } = await oneOfEach(made);
      const keys = Object.values(others).map(keyOf);
      const before = await Promise.all(keys.map((key) => made.stored(key)));
      const unknown = unknownKey();
      const result = await made.store.replay([...keys, dead, keyOf(dead), unknown]);
      expect(ids(result.changed)).toEqual(ids([dead]));
      expect(ids(result.lost)).toEqual(ids([...keys, unknown]));
      expect(await Promise.all(keys.map((key) => made.stored(key)))).toEqual(before);
      expect(await made.store.get(unknown)).toBeNull();
    });

    it("ADD-02 replay refuses a missing list and does nothing for an empty one", async () => {
      const { on } = await queue();
      const db = watched(database().db);
      for (const wrong of [null, undefined, {}]) {
        const call = async () => on(db).replay(wrong as unknown as AnyKey[]);
        await expect(call).rejects.toBeInstanceOf(InvalidArgumentError);
      }
      expect(await on(db).replay([])).toEqual({ changed: [], lost: [], dead: [] });
      expect(db.calls).toEqual([]);
    });

    it("ADD-02 a replayed message that crashed before is claimed with the others again", async () => {
      const { store, owner, clock, held } = await queue({ retry: { maxAttempts: 1 } });
      const crashed = await held(2);
      clock.advance(120_000);
      await store.reapExpired();
      await store.replay(crashed);
      const again = await store.claim({ owner });
      expect(ids(again)).toEqual(ids(crashed));
      expect(again.every((message) => message.crashes === 0)).toBe(true);
    });

    it("ADD-02 the worker that failed a message cannot settle it once it was replayed", async () => {
      const { store, owner, held, stored } = await queue();
      const claimed = await held(1);
      await store.fail(owner, claimed, "no");
      await store.replay(claimed);
      const [again] = await store.claim({ owner: newOwnerToken() });
      expect(ids((await store.ack(owner, claimed)).lost)).toEqual(ids(claimed));
      expect(await stored(again!)).toEqual(again);
    });
  });

  describe("aborted calls", () => {
    it("an aborted signal refuses every call with its reason, and nothing changes", async () => {
      const { store, owner, held } = await queue();
      const [message] = await held(1);
      const key = keyOf(message!);
      const reason = new Error("the host is shutting down");
      const call: CallOptions = { signal: AbortSignal.abort(reason) };
      const calls: Record<string, () => Promise<unknown>> = {
        init: () => store.init(call),
        addOne: () => store.addOne({ topic: "t", payload: "" }, call),
        add: () => store.add(messages(2), call),
        claim: () => store.claim({ owner, ...call }),
        ack: () => store.ack(owner, [message!], call),
        abandon: () => store.abandon(owner, [message!], call),
        fail: () => store.fail(owner, [message!], "no", call),
        release: () => store.release(owner, [key], call),
        renew: () => store.renew(owner, [message!], 1_000, call),
        transaction: () => store.transaction((tx) => store.ack(owner, [message!], { tx }), call),
        reapExpired: () => store.reapExpired(call),
        purgeDone: () => store.purgeDone(call),
        get: () => store.get(key, call),
        list: () => store.list(call),
        stats: () => store.stats(call),
        oldestDueAgeMs: () => store.oldestDueAgeMs(call),
        replay: () => store.replay([message!], call),
        pause: () => store.pause("all", { by: "alice", ...call }),
        resume: () => store.resume("all", { by: "alice", ...call }),
        limit: () => store.limit({ perSecond: 1 }, { by: "alice", ...call }),
        controls: () => store.controls(call),
      };
      for (const [name, aborted] of Object.entries(calls)) await expect(aborted(), name).rejects.toBe(reason);
      expect((await store.list()).messages).toEqual([message]);
    });

    it("IBX-102 OBX-080 an abort inside a transaction rolls it back", async () => {
      const { store, owner, held, stored } = await queue();
      const claimed = await held(1);
      const reason = new Error("time is up");
      const stop = new AbortController();
      const undone = store.transaction(async (tx) => {
        await store.ack(owner, claimed, { tx });
        stop.abort(reason);
        await store.ack(owner, claimed, { tx, signal: stop.signal });
      });
      await expect(undone).rejects.toBe(reason);
      expect(await stored(claimed[0]!)).toEqual(claimed[0]);
    });

    it("IBX-102 OBX-080 an abort while the call waits for the database rejects with the reason, and leaves nothing half done", async () => {
      const { store, names, owner, held, stored } = await queue();
      const [message] = await held(1);
      const stop = new AbortController();
      const reason = new Error("time is up");
      const finished = gate();
      const locked = gate();
      const holding = database().db.driver.transaction(async (tx) => {
        // an embedded database has one writer at a time: there the transaction itself holds the call up
        if (!database().db.dialect.embedded) {
          const lock = `update ${names.state} set attempt = attempt where seq = ${message!.seq}`;
          await tx.query({ ...statement("lock", lock), unprepared: true }, {});
        }
        locked.open();
        await finished.promise;
      });
      await locked.promise;
      const settled = store.ack(owner, [message!], { signal: stop.signal }).then(
        () => "acked",
        (error: unknown) => error,
      );
      setImmediate(() => stop.abort(reason));
      stop.signal.addEventListener("abort", () => setImmediate(() => finished.open()));

      expect(await settled).toBe(reason);
      await holding;
      // the server may have carried out the statement all the same: then all of it
      await store.ack(owner, [message!]);
      expect(await stored(message!)).toMatchObject({ state: states.done, attempt: 0, owner: null });
    });
  });
}
