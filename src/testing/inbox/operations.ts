import { describe, expect, it } from "vitest";
import { ArgumentRangeError, InvalidArgumentError } from "../../errors.js";
import { createInbox, type Inbox, type InboxOptions } from "../../inbox/inbox.js";
import type { InboxKey, InboxState } from "../../queue/message.js";
import { newOwnerToken } from "../../queue/owner-token.js";
import type { CallOptions, ListFilter } from "../../queue/work-store.js";
import { type Holding, holding } from "./settle.js";
import { type InboxContext, keyOf, keysOf, stored, watched } from "./support.js";

/** One message in every state, and in every way to be Processing. */
async function oneOfEach(context: InboxContext, { inbox, owner, clock }: Holding) {
  const keep = async (topic: string, source = "test") => {
    await inbox.receive(context.message({ topic, source }));
    const [message] = await inbox.claim({ owner });
    return message!;
  };
  const crashed = await keep("crashed");
  clock.advance(30_001);
  await inbox.reapExpired();
  const done = await keep("done");
  await inbox.ack(owner, [done]);
  const dead = await keep("dead", "stripe");
  await inbox.fail(owner, [dead], "410 Gone: 100%_[x]");
  const retried = await keep("retried", "stripe");
  await inbox.abandon(owner, [retried], { error: "503 Busy" });
  const leased = await keep("leased");
  const fresh = context.message({ topic: "fresh" });
  await inbox.receive(fresh);
  const seen = keyOf(context.message());
  await inbox.alreadyProcessed(seen);
  const marked = keyOf(context.message());
  await inbox.markProcessing(marked);
  return { crashed, done, dead, retried, leased, fresh, seen, marked };
}

export function operationsTests(context: InboxContext): void {
  describe("operations", () => {
    it("get answers the whole message by its key, and null for an unknown one", async () => {
      const { inbox } = await context.freshInbox();
      const message = context.message({ headers: { a: "b" }, correlationId: "c" });
      await inbox.receive(message);
      expect(await inbox.get(keyOf(message))).toMatchObject({
        ...message,
        state: "Processing",
        deliveries: 1,
      });
      expect(await inbox.get({ ...keyOf(message), source: "other" })).toBeNull();
      expect(await inbox.get({ ...keyOf(message), messageId: "other" })).toBeNull();
      for (const wrong of [null, {}, "x", { source: "s" }, { source: "s", messageId: "" }]) {
        const call = async () => inbox.get(wrong as InboxKey);
        await expect(call, JSON.stringify(wrong)).rejects.toBeInstanceOf(InvalidArgumentError);
      }
    });

    it("ADD-02 list tells the four states apart", async () => {
      const made = await holding(context, 0);
      const { crashed, done, dead, retried, leased, fresh, seen, marked } = await oneOfEach(context, made);
      const byState = {
        Seen: [seen],
        Processing: [crashed, retried, leased, fresh, marked],
        Done: [done],
        Dead: [dead],
      };
      for (const [state, expected] of Object.entries(byState) as [InboxState, InboxKey[]][]) {
        const { messages, cursor } = await made.inbox.list({ state });
        expect(keysOf(messages), state).toEqual(keysOf(expected));
        expect(new Set(messages.map((message) => message.state)), state).toEqual(new Set([state]));
        expect(cursor).toBeNull();
      }
      expect(keysOf((await made.inbox.list()).messages)).toEqual(keysOf(Object.values(byState).flat()));
    });

    it("ADD-02 list filters by topic, source, part of the error and age, and by all of them together", async () => {
      const made = await holding(context, 0);
      const { inbox, clock } = made;
      const each = await oneOfEach(context, made);
      clock.advance(60_000);
      const young = context.message({ topic: "fresh" });
      await inbox.receive(young);
      clock.advance(1_000);
      const found = async (filter: ListFilter<InboxState>) => keysOf((await inbox.list(filter)).messages);

      expect(await found({ topic: "dead" })).toEqual(keysOf([each.dead]));
      expect(await found({ topic: "Dead" })).toEqual([]);
      expect(await found({ topic: "dea%" })).toEqual([]);
      expect(await found({ source: "stripe" })).toEqual(keysOf([each.dead, each.retried]));
      expect(await found({ source: "Stripe" })).toEqual([]);
      expect(await found({ error: "Gone" })).toEqual(keysOf([each.dead]));
      expect(await found({ error: "100%_[x]" })).toEqual(keysOf([each.dead]));
      expect(await found({ error: "%" })).toEqual(keysOf([each.dead]));
      expect(await found({ error: "5_3" })).toEqual([]);
      expect(await found({ newerThanMs: 1_000 })).toEqual(keysOf([young]));
      expect(await found({ newerThanMs: 999 })).toEqual([]);
      expect(await found({ olderThanMs: 91_001 })).toEqual(keysOf([each.crashed]));
      expect(await found({ olderThanMs: 91_002 })).toEqual([]);
      expect(await found({ olderThanMs: 1_001, topic: "fresh" })).toEqual(keysOf([each.fresh]));
      const all: ListFilter<InboxState> = {
        state: "Processing",
        topic: "retried",
        source: "stripe",
        error: "Busy",
      };
      expect(await found(all)).toEqual(keysOf([each.retried]));
      expect(await found({ ...all, state: "Dead" })).toEqual([]);
      expect(await found({ ...all, source: "test" })).toEqual([]);
    });

    it("ADD-02 list pages through everything once, in order, 100 at a time unless told otherwise", async () => {
      const { inbox } = await context.freshInbox();
      const messages = context.messages(205);
      await inbox.enqueue(messages);
      const sizes: number[] = [];
      const seen: string[] = [];
      let after: number | null = 0;
      while (after !== null) {
        const page: Awaited<ReturnType<Inbox["list"]>> = await inbox.list({ after });
        sizes.push(page.messages.length);
        seen.push(...page.messages.map((message) => message.messageId));
        after = page.cursor;
      }
      const ids = messages.map((message) => message.messageId);
      expect(sizes).toEqual([100, 100, 5]);
      expect(seen).toEqual(ids);

      const filter = { limit: 7, topic: "order.created", state: "Processing" } as const;
      const small = await inbox.list(filter);
      expect(small.messages.map((message) => message.messageId)).toEqual(ids.slice(0, 7));
      const next = await inbox.list({ ...filter, after: small.cursor! });
      expect(next.messages.map((message) => message.messageId)).toEqual(ids.slice(7, 14));
    });

    it("ADD-02 list refuses states, limits, ages and cursors that cannot be", async () => {
      const { inbox } = await context.freshInbox();
      const state = async () => inbox.list({ state: "Failed" as InboxState });
      await expect(state).rejects.toBeInstanceOf(InvalidArgumentError);
      const wrong: ListFilter<InboxState>[] = [
        ...[0, -1, 1.5, 1_001, Number.NaN].map((limit) => ({ limit })),
        ...[-1, Number.NaN, Number.POSITIVE_INFINITY].map((olderThanMs) => ({ olderThanMs })),
        ...[-1, Number.NaN].map((newerThanMs) => ({ newerThanMs })),
        ...[-1, Number.NaN, 1.5].map((after) => ({ after })),
      ];
      for (const filter of wrong) {
        const call = async () => inbox.list(filter);
        await expect(call, String(Object.entries(filter))).rejects.toBeInstanceOf(ArgumentRangeError);
      }
    });

    it("ADD-02 stats count each state, and what could be claimed now and for how long", async () => {
      const made = await holding(context, 0);
      const { inbox, clock } = made;
      const empty = { Seen: 0, Processing: 0, Done: 0, Dead: 0 };
      expect(await inbox.stats()).toEqual({ counts: empty, due: 0, oldestDueAgeMs: null });
      expect(await inbox.oldestDueAgeMs()).toBeNull();
      await oneOfEach(context, made);
      // due: the fresh one; the crashed and the abandoned one wait for their back-off
      const counts = { Seen: 1, Processing: 5, Done: 1, Dead: 1 };
      expect(await inbox.stats()).toEqual({ counts, due: 1, oldestDueAgeMs: 0 });
      clock.advance(1_500);
      expect(await inbox.stats()).toEqual({ counts, due: 1, oldestDueAgeMs: 1_500 });
      expect(await inbox.oldestDueAgeMs()).toBe(1_500);
      clock.advance(8_500);
      expect(await inbox.stats()).toEqual({ counts, due: 3, oldestDueAgeMs: 10_000 });
      expect(await inbox.oldestDueAgeMs()).toBe(10_000);
      await inbox.receive(context.message({ dueAt: new Date(clock().getTime() + 1_000) }));
      expect(await inbox.stats()).toMatchObject({ due: 3, counts: { ...counts, Processing: 6 } });
      clock.advance(30_000); // the lease and the back-off after it are over
      expect(await inbox.stats()).toMatchObject({ due: 5 });
    });

    it("ADD-02 replay makes a dead message claimable at once, with attempt 0 and all its attempts", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1, { retry: { maxAttempts: 2 } });
      await inbox.abandon(owner, claimed);
      clock.advance(60_000);
      await inbox.abandon(owner, await inbox.claim({ owner }));
      expect(await stored(inbox, claimed[0]!)).toMatchObject({ state: "Dead", attempt: 2 });

      const result = await inbox.replay([keyOf(claimed[0]!)]);
      expect(keysOf(result.changed)).toEqual(keysOf(claimed));
      expect(result.lost).toEqual([]);
      expect(await stored(inbox, claimed[0]!)).toMatchObject({ state: "Processing", attempt: 0 });
      const again = await inbox.claim({ owner });
      expect(again).toMatchObject([{ ...keyOf(claimed[0]!), payload: claimed[0]!.payload, attempt: 0 }]);
      expect((await inbox.abandon(owner, again)).dead).toEqual([]);
    });

    it("ADD-02 replay changes only what is Dead; the rest is answered as lost and stays as it is", async () => {
      const made = await holding(context, 0);
      const { dead, ...others } = await oneOfEach(context, made);
      const keys = Object.values(others).map(keyOf);
      const before = await Promise.all(keys.map((key) => stored(made.inbox, key)));
      const unknown = keyOf(context.message());
      const result = await made.inbox.replay([...keys, dead, keyOf(dead), unknown]);
      expect(keysOf(result.changed)).toEqual(keysOf([dead]));
      expect(keysOf(result.lost)).toEqual(keysOf([...keys, unknown]));
      expect(await Promise.all(keys.map((key) => stored(made.inbox, key)))).toEqual(before);
      expect(await made.inbox.get(unknown)).toBeNull();
    });

    it("ADD-02 replay refuses a missing list and does nothing for an empty one", async () => {
      const { on } = await context.freshInbox();
      const db = watched(context.database().db);
      for (const wrong of [null, undefined, {}]) {
        const call = async () => on(db).replay(wrong as unknown as InboxKey[]);
        await expect(call).rejects.toBeInstanceOf(InvalidArgumentError);
      }
      expect(await on(db).replay([])).toEqual({ changed: [], lost: [], dead: [] });
      expect(db.calls).toEqual([]);
    });

    it("ADD-02 a replayed message that crashed before is claimed with the others again", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 2, { retry: { maxAttempts: 1 } });
      clock.advance(120_000);
      await inbox.reapExpired();
      await inbox.replay(claimed);
      const again = await inbox.claim({ owner });
      expect(keysOf(again)).toEqual(keysOf(claimed));
      expect(again.every((message) => !message.afterCrash)).toBe(true);
    });

    it("markProcessing moves a Seen message to Processing, out of the claims' sight", async () => {
      const { inbox, owner, clock } = await context.freshInbox();
      const key = keyOf(context.message());
      await inbox.alreadyProcessed(key);
      expect((await stored(inbox, key)).state).toBe("Seen");
      await inbox.markProcessing(key);
      expect(await stored(inbox, key)).toMatchObject({ state: "Processing", owner: null, lockedUntil: null });
      clock.advance(10 * 365 * 86_400_000);
      expect(await inbox.claim({ owner })).toEqual([]);
      await inbox.markProcessed(key);
      expect(await inbox.alreadyProcessed(key)).toBe(true);
    });

    it("markProcessing changes nothing that is waiting, leased, Done or Dead", async () => {
      const { inbox, owner } = await context.freshInbox();
      const [done, dead, leased, waiting] = context.messages(4);
      await inbox.enqueue([done!, dead!, leased!]);
      await inbox.claim({ owner });
      await inbox.ack(owner, [done!]);
      await inbox.fail(owner, [dead!], "no");
      await inbox.receive(waiting!);
      const keys = [done!, dead!, leased!, waiting!].map(keyOf);
      const before = await Promise.all(keys.map((key) => stored(inbox, key)));
      for (const key of keys) await inbox.markProcessing(key);
      expect(await Promise.all(keys.map((key) => stored(inbox, key)))).toEqual(before);
      expect(keysOf(await inbox.claim({ owner }))).toEqual(keysOf([waiting!]));
    });

    it("markProcessed makes Done past a lease, and the worker's ack is answered as lost", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1);
      clock.advance(1_000);
      await inbox.markProcessed(keyOf(claimed[0]!));
      const done = await stored(inbox, claimed[0]!);
      expect(done).toMatchObject({ state: "Done", owner: null, lockedUntil: null, processedAt: clock() });
      expect(keysOf((await inbox.ack(owner, claimed)).lost)).toEqual(keysOf(claimed));
      expect(keysOf((await inbox.abandon(owner, claimed)).lost)).toEqual(keysOf(claimed));
      expect(await stored(inbox, claimed[0]!)).toEqual(done);
    });

    it("markProcessed keeps a time that is there already", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1);
      await inbox.ack(owner, claimed);
      const done = await stored(inbox, claimed[0]!);
      clock.advance(1_000);
      await inbox.markProcessed(keyOf(claimed[0]!));
      const { lastSeenAt: _, ...again } = await stored(inbox, claimed[0]!);
      expect(done).toMatchObject(again);
    });

    it("markDead makes Dead from any state but Done, past a lease, with the error", async () => {
      const made = await holding(context, 0);
      const { inbox, owner } = made;
      const each = await oneOfEach(context, made);
      const { done, ...others } = each;
      for (const key of Object.values(each)) await inbox.markDead(keyOf(key), "by hand");
      for (const [name, key] of Object.entries(others)) {
        const end = { state: "Dead", owner: null, lockedUntil: null, lastError: "by hand" };
        expect(await stored(inbox, key), name).toMatchObject(end);
      }
      expect(await stored(inbox, done)).toMatchObject({ state: "Done", lastError: null });
      expect(keysOf((await inbox.ack(owner, [each.leased])).lost)).toEqual(keysOf([each.leased]));
      expect(await inbox.claim({ owner })).toEqual([]);
    });

    it("markDead without an error keeps the one that is there; an empty one is none", async () => {
      const { inbox, owner, claimed } = await holding(context, 1);
      await inbox.abandon(owner, claimed, { error: "503" });
      await inbox.markDead(keyOf(claimed[0]!));
      expect((await stored(inbox, claimed[0]!)).lastError).toBe("503");
      const other = keyOf(context.message());
      await inbox.markDead(other, "");
      expect((await stored(inbox, other)).lastError).toBeNull();
    });

    it("ADD-02 markDead tells onDead, and says nothing of a message that stays Done", async () => {
      const { inbox, owner, dead, claimed } = await holding(context, 2);
      const [done, doomed] = claimed.map(keyOf);
      await inbox.ack(owner, [done!]);
      await inbox.markDead(done!, "by hand");
      await inbox.markDead(doomed!, "by hand");
      expect(dead).toEqual([{ ...doomed!, reason: "by hand" }]);
    });

    it("each mark records a key that was unknown", async () => {
      const { inbox, owner } = await context.freshInbox();
      const [processing, processed, dead] = context.messages(3);
      await inbox.markProcessing(keyOf(processing!));
      await inbox.markProcessed(keyOf(processed!));
      await inbox.markDead(keyOf(dead!), "never wanted");
      expect((await stored(inbox, processing!)).state).toBe("Processing");
      expect((await stored(inbox, processed!)).state).toBe("Done");
      expect(await stored(inbox, dead!)).toMatchObject({ state: "Dead", lastError: "never wanted" });
      expect(await inbox.claim({ owner })).toEqual([]);
      // enqueued after all: what was only marked becomes claimable, so that a marker's death loses nothing
      expect(await inbox.enqueue([processing!, processed!, dead!])).toEqual(["enqueued", "done", "dead"]);
      expect((await inbox.claim({ owner })).map(keyOf)).toEqual([keyOf(processing!)]);
    });

    it("marks refuse keys that cannot be", async () => {
      const { inbox } = await context.freshInbox();
      for (const wrong of [null, undefined, {}, { source: "s" }, { source: "", messageId: "m" }]) {
        const key = wrong as InboxKey;
        for (const call of [inbox.markProcessing, inbox.markProcessed, inbox.markDead]) {
          const mark = async () => call(key);
          await expect(mark, JSON.stringify(wrong)).rejects.toBeInstanceOf(InvalidArgumentError);
        }
      }
      expect((await inbox.list()).messages).toEqual([]);
    });

    it("an aborted signal refuses every call with its reason, and nothing changes", async () => {
      const { inbox, owner, claimed } = await holding(context, 1);
      const [message] = claimed;
      const key = keyOf(message!);
      const reason = new Error("the host is shutting down");
      const call: CallOptions = { signal: AbortSignal.abort(reason) };
      const calls: Record<string, () => Promise<unknown>> = {
        init: () => inbox.init(call),
        receive: () => inbox.receive(context.message(), call),
        enqueue: () => inbox.enqueue(context.messages(2), call),
        alreadyProcessed: () => inbox.alreadyProcessed(keyOf(context.message()), null, call),
        markProcessing: () => inbox.markProcessing(keyOf(context.message()), call),
        markProcessed: () => inbox.markProcessed(key, call),
        markDead: () => inbox.markDead(key, "no", call),
        claim: () => inbox.claim({ owner, ...call }),
        ack: () => inbox.ack(owner, [message!], call),
        abandon: () => inbox.abandon(owner, [message!], call),
        fail: () => inbox.fail(owner, [message!], "no", call),
        release: () => inbox.release(owner, [key], call),
        renew: () => inbox.renew(owner, [message!], 1_000, call),
        transaction: () => inbox.transaction((tx) => inbox.ack(owner, [message!], { tx }), call),
        reapExpired: () => inbox.reapExpired(call),
        purgeDone: () => inbox.purgeDone(call),
        get: () => inbox.get(key, call),
        list: () => inbox.list(call),
        stats: () => inbox.stats(call),
        oldestDueAgeMs: () => inbox.oldestDueAgeMs(call),
        replay: () => inbox.replay([message!], call),
      };
      for (const [name, aborted] of Object.entries(calls)) await expect(aborted(), name).rejects.toBe(reason);
      expect((await inbox.list()).messages).toEqual([message]);
    });

    it("an abort inside a transaction rolls it back", async () => {
      const { inbox, owner, claimed } = await holding(context, 1);
      const reason = new Error("time is up");
      const stop = new AbortController();
      const undone = inbox.transaction(async (tx) => {
        await inbox.ack(owner, claimed, { tx });
        stop.abort(reason);
        await inbox.ack(owner, claimed, { tx, signal: stop.signal });
      });
      await expect(undone).rejects.toBe(reason);
      expect(await stored(inbox, claimed[0]!)).toEqual(claimed[0]);
    });

    it("unknown options are refused when the inbox is created, all in one error", () => {
      const { db } = context.database();
      const create = () => createInbox(db, { tabel: "x", retires: 3, table: "t" } as InboxOptions);
      expect(create).toThrow(InvalidArgumentError);
      expect(create).toThrow(/tabel/);
      expect(create).toThrow(/retires/);
      expect(create).toThrow(/Known: .*deadOnRedelivery/);
    });

    it("a retry policy that cannot be is refused when the inbox is created, all of it in one error", () => {
      const { db } = context.database();
      const wrong: Record<string, unknown>[] = [
        ...[0, -1, 1.5, Number.NaN, "3", null].map((maxAttempts) => ({ maxAttempts })),
        ...[0, -1, Number.NaN, Number.POSITIVE_INFINITY].map((baseMs) => ({ baseMs })),
        ...[0, 0.5, 101, Number.NaN].map((factor) => ({ factor })),
        ...[0, -1, 400 * 86_400_000].map((maxMs) => ({ maxMs })),
        ...[-1, Number.NaN].map((jitterMs) => ({ jitterMs })),
        { maxAttempt: 3 },
      ];
      for (const retry of wrong) {
        const [[name, value]] = Object.entries(retry) as [[string, unknown]];
        const create = () => createInbox(db, { retry });
        expect(create, `${name} ${String(value)}`).toThrow(ArgumentRangeError);
        expect(create).toThrow(new RegExp(name));
      }
      const both = () => createInbox(db, { retry: { maxAttempts: 0, factor: 0 } });
      expect(both).toThrow(/maxAttempts.*factor/);
    });

    it("names and choices that cannot be are refused when the inbox is created, by their name", () => {
      const { db } = context.database();
      const wrong: [string, InboxOptions][] = [
        ["table", { table: "" }],
        ["table", { table: "x".repeat(200) }],
        ["table", { table: "a\0b" }],
        ["table", { table: 7 as unknown as string }],
        ["schema", { schema: "" }],
        ["schema", { schema: "x".repeat(200) }],
        ["deadOnRedelivery", { deadOnRedelivery: "maybe" as "keep" }],
        ["processedBy", { processedBy: "x".repeat(101) }],
      ];
      for (const [name, options] of wrong) {
        const create = () => createInbox(db, options);
        expect(create, JSON.stringify(options)).toThrow(InvalidArgumentError);
        expect(create).toThrow(new RegExp(name));
      }
    });

    it("options of the wrong type are refused when the inbox is created, not when they are first used", () => {
      const { db } = context.database();
      const wrong = {
        onDead: "x",
        clock: 5,
        logger: {},
        processedBy: 7,
        id: 7,
        enableSchemaDeployment: "yes",
      };
      for (const [name, value] of Object.entries(wrong)) {
        const create = () => createInbox(db, { [name]: value } as InboxOptions);
        expect(create, name).toThrow(InvalidArgumentError);
        expect(create).toThrow(new RegExp(name));
      }
    });

    it("IBX-008 a delivery without a hash keeps the one that is known, so that the next mismatch is still seen", async () => {
      const { inbox } = await context.freshInbox();
      const message = context.message({ hash: new Uint8Array([1]) });
      expect(await inbox.receive(message)).toBe("enqueued");
      expect(await inbox.receive({ ...message, hash: null })).toBe("duplicate");
      expect(await inbox.receive({ ...message, hash: new Uint8Array([2]) })).toBe("conflict");
    });

    it("ADD-02 the worker that failed a message cannot settle it once it was replayed", async () => {
      const { inbox, owner, claimed } = await holding(context, 1);
      await inbox.fail(owner, claimed, "no");
      await inbox.replay(claimed);
      const heir = newOwnerToken();
      const [again] = await inbox.claim({ owner: heir });
      expect(keysOf((await inbox.ack(owner, claimed)).lost)).toEqual(keysOf(claimed));
      expect(await stored(inbox, again!)).toEqual(again);
    });
  });
}
