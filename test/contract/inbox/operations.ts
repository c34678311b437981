import { describe, expect, it } from "vitest";
import { InvalidArgumentError } from "../../../src/errors.js";
import { createInbox, type InboxOptions } from "../../../src/inbox/inbox.js";
import { archiveDead } from "../../../src/operators/bulk-operations.js";
import { operatorsOf } from "../../../src/operators/operators-of.js";
import type { InboxKey, InboxState } from "../../../src/queue/message.js";
import type { CallOptions, ListFilter } from "../../../src/queue/work-store.js";
import { skipUnless } from "../harness.js";
import { shownRows } from "../support/database.js";
import { type Holding, holding, type InboxContext, keyOf, keyTexts, stored } from "./support.js";

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

/** Seen messages, marks by hand, and filters by source. */
export function operationsTests(context: InboxContext): void {
  describe("operations: inbox only", () => {
    it("IBX-103 MID-03 a read does not show what an open transaction has written", async (test) => {
      const database = context.database();
      skipUnless(test, database, "severalConnections");
      const { inbox } = await context.freshInbox();
      const message = context.message();
      const caller = await database.begin();
      await inbox.receive(message, { tx: caller.tx });
      await inbox.markProcessed(message, { tx: caller.tx });
      // a server without row versions waits for a while
      const read = await inbox.get(keyOf(message)).catch(({ name }: Error) => name);
      expect([null, "RowLockedError"]).toContain(read);
      await caller.rollback();
      expect(await inbox.get(keyOf(message))).toBeNull();
      await inbox.receive(message);
      expect(await inbox.get(keyOf(message))).toMatchObject({
        payload: message.payload,
      });
    });

    it("ADD-02 a message that was revived or marked as processed is not counted as dead; one marked dead is", async () => {
      const { inbox } = await context.freshInbox({ deadOnRedelivery: "revive" });
      const [revived, finished, silent] = [context.message(), context.message(), context.message()];
      for (const message of [revived, finished]) {
        await inbox.receive(message);
        await inbox.markDead(keyOf(message), "410");
      }
      await inbox.markDead(keyOf(silent));
      expect(await operatorsOf(inbox).countDead()).toBe(3);
      expect(await operatorsOf(inbox).countDead({ source: "test" })).toBe(3);
      expect(await operatorsOf(inbox).countDead({ source: "another" })).toBe(0);
      expect(await inbox.receive(revived)).toBe("enqueued");
      expect(await inbox.markProcessed(keyOf(finished))).toBe(true);
      const [group, ...others] = await operatorsOf(inbox).deadGroups();
      expect(group).toMatchObject({ errorGroup: "", error: null, count: 1, example: keyOf(silent) });
      expect(others).toEqual([]);
      expect(await operatorsOf(inbox).countDead({ errorGroup: "" })).toBe(1);
    });

    it("ADD-02 a message that an operator archived or replaced differs from a handled one and is still recognised", async () => {
      const made = await holding(context, 0);
      const { inbox, owner } = made;
      const operators = operatorsOf(inbox);
      const deadAs = async (topic: string) => {
        const message = context.message({ topic, correlationId: "order 7" });
        await inbox.receive(message);
        await inbox.fail(owner, await inbox.claim({ owner }), "410");
        return message;
      };
      await inbox.receive(context.message({ topic: "handled", correlationId: "order 7" }));
      await inbox.ack(owner, await inbox.claim({ owner }));
      const one = await deadAs("one");
      await deadAs("two");
      const edited = await deadAs("edited");
      expect(await inbox.get(keyOf(one))).toMatchObject({ state: "Dead", resolution: null });
      await operators.archive([keyOf(one)], { by: "alice" });
      await archiveDead(operators, { topic: "two" }, { by: "alice" });
      await operators.editAndReplay(keyOf(edited), { topic: "corrected" }, { by: "alice" });

      const resolutions = {
        handled: null,
        one: "archived",
        two: "archived",
        edited: "replaced",
        corrected: null,
      };
      const resolutionsOf = (
        found: readonly { readonly topic: string; readonly resolution: string | null }[],
      ) => Object.fromEntries(found.map(({ topic, resolution }) => [topic, resolution]));
      expect(resolutionsOf((await inbox.list()).messages)).toEqual(resolutions);
      expect(resolutionsOf(await operators.byCorrelation("order 7"))).toEqual(resolutions);
      expect(await inbox.get(keyOf(edited))).toMatchObject({
        ...{ state: "Done", resolution: "replaced" },
        ...{ lastAttemptAt: null, processedAt: made.clock() },
      });
      const [handled, archived] = await operators.byCorrelation("order 7");
      expect(handled).toMatchObject({ firstAttemptAt: made.clock(), doneAt: made.clock() });
      expect(archived).toMatchObject({ firstAttemptAt: null, doneAt: made.clock() });
      const topics = async (filter: ListFilter<InboxState>) =>
        (await inbox.list(filter)).messages.map(({ topic }) => topic);
      expect(await topics({ resolution: "archived" })).toEqual(["one", "two"]);
      expect(await topics({ state: "Done", resolution: "archived", limit: 1 })).toEqual(["one"]);
      expect(await topics({ state: "Done", resolution: "archived", topic: "two" })).toEqual(["two"]);
      expect(await topics({ resolution: "replaced" })).toEqual(["edited"]);
      expect(await topics({ state: "Dead", resolution: "replaced" })).toEqual([]);
      await expect(async () => topics({ resolution: "done" as "archived" })).rejects.toBeInstanceOf(
        InvalidArgumentError,
      );
      const { counts, phases } = await inbox.stats();
      expect(counts).toMatchObject({ Done: 4, Dead: 0 });
      expect(phases).toMatchObject({ done: 1, archived: 2, replaced: 1, dead: 0, waiting: 1 });
      const rows = await shownRows(context.database(), `select * from ${made.names.view}`);
      const shown = Object.fromEntries(rows.map(({ Topic, Phase }) => [Topic, Phase]));
      expect(shown).toEqual({ ...resolutions, handled: "done", corrected: "waiting" });

      for (const message of [one, edited]) {
        expect(await inbox.receive(message)).toBe("done");
        expect(await inbox.get(keyOf(message))).toMatchObject({ state: "Done", payload: "", deliveries: 2 });
      }
      expect((await inbox.stats()).phases).toEqual(phases);
    });

    it("ADD-02 list filters by the four states", async () => {
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
        expect(keyTexts(messages), state).toEqual(keyTexts(expected));
        expect(new Set(messages.map((message) => message.state)), state).toEqual(new Set([state]));
        expect(cursor).toBeNull();
      }
      expect(keyTexts((await made.inbox.list()).messages)).toEqual(keyTexts(Object.values(byState).flat()));
    });

    it("ADD-02 list filters by source, and by source together with the other filters", async () => {
      const made = await holding(context, 0);
      const { inbox } = made;
      const each = await oneOfEach(context, made);
      const found = async (filter: ListFilter<InboxState>) => keyTexts((await inbox.list(filter)).messages);

      expect(await found({ source: "stripe" })).toEqual(keyTexts([each.dead, each.retried]));
      expect(await found({ source: "Stripe" })).toEqual([]);
      const all: ListFilter<InboxState> = {
        state: "Processing",
        topic: "retried",
        source: "stripe",
        error: "Busy",
      };
      expect(await found(all)).toEqual(keyTexts([each.retried]));
      expect(await found({ ...all, state: "Dead" })).toEqual([]);
      expect(await found({ ...all, source: "test" })).toEqual([]);
    });

    it("ADD-02 stats count Seen and marked messages, which are never due", async () => {
      const made = await holding(context, 0);
      await oneOfEach(context, made);
      // due: the fresh one; the crashed and the abandoned one wait for their back-off
      expect(await made.inbox.stats()).toMatchObject({
        counts: { Seen: 1, Processing: 5, Done: 1, Dead: 1 },
        phases: { seen: 1, running: 1, done: 1, dead: 1 },
        due: 1,
      });
      made.clock.advance(60_000); // the lease and every back-off are over
      expect(await made.inbox.stats()).toMatchObject({ due: 4 });
    });

    it("ADD-02 replay returns Seen and marked messages as lost and leaves them as they are", async () => {
      const made = await holding(context, 0);
      const { seen, marked } = await oneOfEach(context, made);
      const keys = [seen, marked];
      const before = await Promise.all(keys.map((key) => stored(made.inbox, key)));
      const { changed, lost } = await made.inbox.replay(keys);
      expect([changed, keyTexts(lost)]).toEqual([[], keyTexts(keys)]);
      expect(await Promise.all(keys.map((key) => stored(made.inbox, key)))).toEqual(before);
    });

    it("markProcessing leaves waiting, leased, Done and Dead messages as they are", async () => {
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
      expect(keyTexts(await inbox.claim({ owner }))).toEqual(keyTexts([waiting!]));
    });

    it("markProcessed makes a leased message Done, and the worker's ack is returned as lost", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1);
      clock.advance(1_000);
      await inbox.markProcessed(keyOf(claimed[0]!));
      const done = await stored(inbox, claimed[0]!);
      expect(done).toMatchObject({ state: "Done", owner: null, lockedUntil: null, processedAt: clock() });
      expect(keyTexts((await inbox.ack(owner, claimed)).lost)).toEqual(keyTexts(claimed));
      expect(keyTexts((await inbox.abandon(owner, claimed)).lost)).toEqual(keyTexts(claimed));
      expect(await stored(inbox, claimed[0]!)).toEqual(done);
    });

    it("markProcessed keeps the time at which a message was processed", async () => {
      const { inbox, owner, clock, claimed } = await holding(context, 1);
      await inbox.ack(owner, claimed);
      const done = await stored(inbox, claimed[0]!);
      clock.advance(1_000);
      await inbox.markProcessed(keyOf(claimed[0]!));
      const { lastSeenAt: _, ...again } = await stored(inbox, claimed[0]!);
      expect(done).toMatchObject(again);
    });

    it("ADD-02 markDead makes a message Dead, leased or not, in any state but Done, with the error", async () => {
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
      expect(keyTexts((await inbox.ack(owner, [each.leased])).lost)).toEqual(keyTexts([each.leased]));
      expect(await inbox.claim({ owner })).toEqual([]);
    });

    it("markDead without an error keeps the last error; an empty one is none", async () => {
      const { inbox, owner, claimed } = await holding(context, 1);
      await inbox.abandon(owner, claimed, { error: "503" });
      await inbox.markDead(keyOf(claimed[0]!));
      expect((await stored(inbox, claimed[0]!)).lastError).toBe("503");
      const other = keyOf(context.message());
      await inbox.markDead(other, "");
      expect((await stored(inbox, other)).lastError).toBeNull();
    });

    it("ADD-02 markDead calls onDead, but not for a message that stays Done", async () => {
      const { inbox, owner, dead, claimed } = await holding(context, 2);
      const [done, doomed] = claimed.map(keyOf);
      await inbox.ack(owner, [done!]);
      await inbox.markDead(done!, "by hand");
      await inbox.markDead(doomed!, "by hand");
      expect(dead).toEqual([{ ...doomed!, reason: "by hand" }]);
    });

    it("each mark records an unknown key", async () => {
      const { inbox, owner } = await context.freshInbox();
      const [processing, processed, dead] = context.messages(3);
      await inbox.markProcessing(keyOf(processing!));
      await inbox.markProcessed(keyOf(processed!));
      await inbox.markDead(keyOf(dead!), "never wanted");
      expect((await stored(inbox, processing!)).state).toBe("Processing");
      expect((await stored(inbox, processed!)).state).toBe("Done");
      expect(await stored(inbox, dead!)).toMatchObject({ state: "Dead", lastError: "never wanted" });
      expect(await inbox.claim({ owner })).toEqual([]);
      // a message that was only marked as processing becomes claimable, so that nothing is lost when the process that marked it dies
      expect(await inbox.enqueue([processing!, processed!, dead!])).toEqual(["enqueued", "done", "dead"]);
      expect((await inbox.claim({ owner })).map(keyOf)).toEqual([keyOf(processing!)]);
    });

    it("marks refuse malformed keys", async () => {
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

    it("an aborted signal refuses every call of an inbox with its reason, and nothing changes", async () => {
      const { inbox, claimed } = await holding(context, 1);
      const key = keyOf(claimed[0]!);
      const reason = new Error("the host is shutting down");
      const call: CallOptions = { signal: AbortSignal.abort(reason) };
      const calls: Record<string, () => Promise<unknown>> = {
        receive: () => inbox.receive(context.message(), call),
        enqueue: () => inbox.enqueue(context.messages(2), call),
        alreadyProcessed: () => inbox.alreadyProcessed(keyOf(context.message()), null, call),
        markProcessing: () => inbox.markProcessing(keyOf(context.message()), call),
        markProcessed: () => inbox.markProcessed(key, call),
        markDead: () => inbox.markDead(key, "no", call),
      };
      for (const [name, aborted] of Object.entries(calls)) await expect(aborted(), name).rejects.toBe(reason);
      expect((await inbox.list()).messages).toEqual(claimed);
    });

    it("IBX-029 an unknown deadOnRedelivery is refused when the inbox is created", () => {
      const { db } = context.database();
      const create = () => createInbox(db, { deadOnRedelivery: "maybe" as "keep" });
      expect(create).toThrow(InvalidArgumentError);
      expect(create).toThrow(/deadOnRedelivery/);
      const unknown = () => createInbox(db, { tabel: "x" } as InboxOptions);
      expect(unknown).toThrow(/Known: .*deadOnRedelivery/);
    });
  });
}
