import { randomUUID } from "node:crypto";
import { expect, it } from "vitest";
import { ArgumentRangeError, InvalidArgumentError } from "../../errors.js";
import type { Outbox } from "../../outbox/outbox.js";
import type { OutboxKey, OutboxState } from "../../queue/message.js";
import type { CallOptions, ListFilter, PurgeResult } from "../../queue/work-store.js";
import type { ContractHarness } from "../harness.js";
import { type Box, idsOf, messages, outboxTheme, stored } from "./support.js";

const day = 86_400_000;

/** One message in every state, and in both ways to be Ready and Failed. */
async function oneOfEach({ outbox, owner, held, clock }: Box) {
  const [crashed] = await held(1, { topic: "crashed" });
  clock.advance(30_001);
  await outbox.reapExpired();
  const [done] = await held(1, { topic: "done" });
  await outbox.ack(owner, [done!]);
  const [failed] = await held(1, { topic: "failed" });
  await outbox.fail(owner, [failed!], "410 Gone: 100%_[x]");
  const [retried] = await held(1, { topic: "retried" });
  await outbox.abandon(owner, [retried!], { error: "503 Busy" });
  const [leased] = await held(1, { topic: "leased" });
  const fresh = { id: await outbox.enqueue({ topic: "fresh", payload: "" }) };
  return { crashed: crashed!, done: done!, failed: failed!, retried: retried!, leased: leased!, fresh };
}

export function operationsContract(harness: ContractHarness): void {
  outboxTheme(harness, "operations", ({ database, box }) => {
    it("OBX-014 get answers the message by its id, in any case, and null for an unknown one", async () => {
      const { outbox } = await box();
      const id = await outbox.enqueue({ topic: "t", payload: "p" });
      expect(await outbox.get({ id })).toMatchObject({ id, payload: "p" });
      expect(await outbox.get({ id: id.toUpperCase() })).toMatchObject({ id, payload: "p" });
      expect(await outbox.get({ id: randomUUID() })).toBeNull();
      for (const wrong of [{ id: "7" }, {}, null, id]) {
        const call = async () => outbox.get(wrong as OutboxKey);
        await expect(call).rejects.toBeInstanceOf(InvalidArgumentError);
      }
    });

    it("OBX-030 OBX-044 list tells the four states apart", async () => {
      const made = await box();
      const each = await oneOfEach(made);
      const inState = async (state: OutboxState) => idsOf((await made.outbox.list({ state })).messages);

      expect(await inState("Ready")).toEqual(idsOf([each.crashed, each.retried, each.fresh]));
      expect(await inState("InProgress")).toEqual(idsOf([each.leased]));
      expect(await inState("Done")).toEqual(idsOf([each.done]));
      expect(await inState("Failed")).toEqual(idsOf([each.failed]));
      for (const state of ["Ready", "InProgress", "Done", "Failed"] as const) {
        for (const message of (await made.outbox.list({ state })).messages) expect(message.state).toBe(state);
      }
      expect(idsOf((await made.outbox.list()).messages)).toEqual(idsOf(Object.values(each)));
    });

    it("ADD-02 list filters by topic, by part of the error and by age, and by all of them together", async () => {
      const made = await box();
      const each = await oneOfEach(made);
      const { outbox, clock } = made;
      clock.advance(60_000);
      const young = { id: await outbox.enqueue({ topic: "fresh", payload: "young" }) };
      clock.advance(1_000);
      const found = async (filter: ListFilter<OutboxState>) => idsOf((await outbox.list(filter)).messages);

      expect(await found({ topic: "failed" })).toEqual(idsOf([each.failed]));
      expect(await found({ topic: "Failed" })).toEqual([]);
      expect(await found({ topic: "fail%" })).toEqual([]);
      expect(await found({ error: "Gone" })).toEqual(idsOf([each.failed]));
      expect(await found({ error: "100%_[x]" })).toEqual(idsOf([each.failed]));
      expect(await found({ error: "%" })).toEqual(idsOf([each.failed]));
      expect(await found({ error: "5_3" })).toEqual([]);
      expect(await found({ newerThanMs: 1_000 })).toEqual(idsOf([young]));
      expect(await found({ newerThanMs: 999 })).toEqual([]);
      expect(await found({ olderThanMs: 61_001 })).toEqual(idsOf([each.crashed]));
      expect(await found({ olderThanMs: 1_001, topic: "fresh" })).toEqual(idsOf([each.fresh]));
      expect(await found({ state: "Ready", topic: "retried", error: "Busy" })).toEqual(idsOf([each.retried]));
      expect(await found({ state: "Done", topic: "retried" })).toEqual([]);
    });

    it("ADD-02 list pages through everything once, in order, 100 at a time unless told otherwise", async () => {
      const { outbox } = await box();
      const ids = await outbox.enqueue(messages(205));
      const sizes: number[] = [];
      const seen: string[] = [];
      let after: number | null = 0;
      while (after !== null) {
        const page: Awaited<ReturnType<Outbox["list"]>> = await outbox.list({ after });
        sizes.push(page.messages.length);
        seen.push(...page.messages.map((message) => message.id));
        after = page.cursor;
      }
      expect(sizes).toEqual([100, 100, 5]);
      expect(seen).toEqual(ids);

      const small = await outbox.list({ limit: 7, topic: "test", state: "Ready" });
      expect(small.messages.map((message) => message.id)).toEqual(ids.slice(0, 7));
      const next = await outbox.list({ limit: 7, topic: "test", state: "Ready", after: small.cursor! });
      expect(next.messages.map((message) => message.id)).toEqual(ids.slice(7, 14));
    });

    it("ADD-02 list refuses states, limits, ages and cursors that cannot be", async () => {
      const { outbox } = await box();
      const state = async () => outbox.list({ state: "Dead" as OutboxState });
      await expect(state).rejects.toBeInstanceOf(InvalidArgumentError);
      const wrong: ListFilter<OutboxState>[] = [
        ...[0, -1, 1.5, 1_001, Number.NaN].map((limit) => ({ limit })),
        ...[-1, Number.NaN, Number.POSITIVE_INFINITY].map((olderThanMs) => ({ olderThanMs })),
        ...[-1, Number.NaN].map((newerThanMs) => ({ newerThanMs })),
        ...[-1, Number.NaN, 1.5].map((after) => ({ after })),
      ];
      for (const filter of wrong) {
        const call = async () => outbox.list(filter);
        await expect(call, JSON.stringify(filter)).rejects.toBeInstanceOf(ArgumentRangeError);
      }
    });

    it("OBX-018 stats count each state, and what could be claimed now and for how long", async () => {
      const made = await box();
      const { outbox, clock } = made;
      expect(await outbox.stats()).toEqual({
        counts: { Ready: 0, InProgress: 0, Done: 0, Failed: 0 },
        due: 0,
        oldestDueAgeMs: null,
      });
      expect(await outbox.oldestDueAgeMs()).toBeNull();
      await oneOfEach(made);
      // due: the fresh one; the crashed and the abandoned one wait for their back-off
      const expected = { counts: { Ready: 3, InProgress: 1, Done: 1, Failed: 1 }, due: 1, oldestDueAgeMs: 0 };
      expect(await outbox.stats()).toEqual(expected);
      clock.advance(1_500);
      expect(await outbox.stats()).toMatchObject({ due: 1, oldestDueAgeMs: 1_500 });
      expect(await outbox.oldestDueAgeMs()).toBe(1_500);
      clock.advance(8_500);
      expect(await outbox.stats()).toMatchObject({ due: 3, oldestDueAgeMs: 10_000 });
      expect(await outbox.oldestDueAgeMs()).toBe(10_000);
      await outbox.enqueue({ topic: "t", payload: "", dueAt: new Date(clock().getTime() + 1_000) });
      expect(await outbox.stats()).toMatchObject({ due: 3, counts: { Ready: 4 } });
    });

    it("ADD-02 replay makes a failed message claimable at once, with attempt 0, no expiry and its old messageId", async () => {
      const { outbox, owner, clock } = await box({ retry: { maxAttempts: 2 } });
      const expiresAt = new Date(clock().getTime() + 5_000);
      const id = await outbox.enqueue({ topic: "t", payload: "p", expiresAt });
      const { messageId } = await stored(outbox, { id });
      clock.advance(10_000);
      await outbox.claim({ owner });
      expect((await stored(outbox, { id })).state).toBe("Failed");

      const result = await outbox.replay([{ id }]);
      expect(idsOf(result.changed)).toEqual([id]);
      expect(result.lost).toEqual([]);
      const [again] = await outbox.claim({ owner });
      expect(again).toMatchObject({
        id,
        messageId,
        attempt: 0,
        expiresAt: null,
        afterCrash: false,
        payload: "p",
      });
      expect((await outbox.abandon(owner, [again!])).dead).toEqual([]);
    });

    it("ADD-02 replay brings back only what has failed; the rest is answered as lost and stays as it is", async () => {
      const made = await box();
      const each = await oneOfEach(made);
      const { failed, ...others } = each;
      const before = await Promise.all(Object.values(others).map((key) => stored(made.outbox, key)));
      const unknown = { id: randomUUID() };
      const result = await made.outbox.replay([...Object.values(each), failed, unknown]);

      expect(idsOf(result.changed)).toEqual([failed.id]);
      expect(idsOf(result.lost)).toEqual(idsOf([...Object.values(others), unknown]));
      expect(await Promise.all(Object.values(others).map((key) => stored(made.outbox, key)))).toEqual(before);
    });

    it("ADD-02 a replayed message that crashed before is claimed with the others again", async () => {
      const { outbox, held, clock, owner } = await box({ retry: { maxAttempts: 1 } });
      const dead = await held(2);
      clock.advance(120_000);
      await outbox.reapExpired();
      await outbox.replay(dead);
      expect(idsOf(await outbox.claim({ owner }))).toEqual(idsOf(dead));
    });

    it("MID-10 purgeDone deletes what was done before the retention, and nothing else, ever", async () => {
      const made = await box();
      const each = await oneOfEach(made);
      const { outbox, owner, clock } = made;
      clock.advance(10_000);
      const [late] = await made.outbox.claim({ owner }); // one more Done, later
      await outbox.ack(owner, [late!]);

      expect(await outbox.purgeDone({ retentionMs: 10_001 })).toEqual({
        purged: 0,
        more: false,
        cursor: null,
      });
      clock.advance(2);
      expect(await outbox.purgeDone({ retentionMs: 10_001 })).toEqual({
        purged: 1,
        more: false,
        cursor: null,
      });
      expect(await outbox.get(each.done)).toBeNull();
      expect(await outbox.get(late!)).not.toBeNull();

      clock.advance(3_650 * day);
      expect(await outbox.purgeDone({ retentionMs: 1 })).toEqual({ purged: 1, more: false, cursor: null });
      const left = (await outbox.list()).messages;
      expect(left).toHaveLength(4);
      expect(left.some((message) => message.state === "Done")).toBe(false);
      // nothing of the deleted ones stays behind in the state table
      const [row] = await database().raw(
        `select count(*) as n from ${made.names.state} where seq not in (select seq from ${made.names.message})`,
      );
      expect(Number(row!.n)).toBe(0);
    });

    it("MID-10 purgeDone keeps 30 days unless told otherwise", async () => {
      const { outbox, owner, held, clock } = await box();
      await outbox.ack(owner, await held(1));
      clock.advance(30 * day);
      expect((await outbox.purgeDone()).purged).toBe(0);
      clock.advance(1);
      expect((await outbox.purgeDone()).purged).toBe(1);
    });

    it("MID-10 purgeDone counts the retention from when it was done, not from when it was enqueued", async () => {
      const { outbox, owner, clock } = await box();
      await outbox.enqueue({ topic: "t", payload: "" });
      clock.advance(10 * day);
      await outbox.ack(owner, await outbox.claim({ owner }));
      clock.advance(day);
      expect((await outbox.purgeDone({ retentionMs: 2 * day })).purged).toBe(0);
      clock.advance(2 * day);
      expect((await outbox.purgeDone({ retentionMs: 2 * day })).purged).toBe(1);
    });

    it("MID-10 purgeDone works in batches, as many as are allowed, and says whether more is left", async () => {
      const { outbox, owner, held, clock } = await box();
      await outbox.ack(owner, await held(25));
      clock.advance(2 * day);
      const first = await outbox.purgeDone({ retentionMs: day, batchSize: 10, maxBatches: 2 });
      expect(first).toMatchObject({ purged: 20, more: true });
      expect(first.cursor).not.toBeNull();
      const rest = await outbox.purgeDone({ retentionMs: day, batchSize: 10 });
      expect(rest).toEqual({ purged: 5, more: false, cursor: null });
    });

    it("MID-10 purgeDone in bounded runs gets past rows that it must keep", async () => {
      const { outbox, owner, held, clock } = await box();
      await outbox.fail(owner, await held(10), "no");
      await outbox.ack(owner, await held(5));
      clock.advance(2 * day);
      let purged = 0;
      let runs = 0;
      for (let after: number | null = 0; after !== null; runs++) {
        const options = { retentionMs: day, batchSize: 5, maxBatches: 1, after };
        const result: PurgeResult = await outbox.purgeDone(options);
        purged += result.purged;
        after = result.cursor;
      }
      expect(purged).toBe(5);
      expect(runs).toBeLessThanOrEqual(4);
      expect((await outbox.stats()).counts).toMatchObject({ Failed: 10, Done: 0 });
    });

    it("MID-10 purgeDone refuses retentions, sizes and numbers of batches that cannot be", async () => {
      const { outbox } = await box();
      const wrong = [
        ...[0, -1, Number.NaN].map((retentionMs) => ({ retentionMs })),
        ...[0, -1, 1.5, 1_001].map((batchSize) => ({ batchSize })),
        ...[0, -1, 1.5, Number.NaN].map((maxBatches) => ({ maxBatches })),
      ];
      for (const options of wrong) {
        const call = async () => outbox.purgeDone(options);
        await expect(call, JSON.stringify(options)).rejects.toBeInstanceOf(ArgumentRangeError);
      }
    });

    it("OBX-080 an aborted signal refuses every call with its reason, and nothing changes", async () => {
      const { outbox, owner, held } = await box();
      const [message] = await held(1);
      const reason = new Error("the host is shutting down");
      const call: CallOptions = { signal: AbortSignal.abort(reason) };
      const calls: Record<string, () => Promise<unknown>> = {
        init: () => outbox.init(call),
        enqueue: () => outbox.enqueue({ topic: "t", payload: "" }, call),
        "enqueue many": () => outbox.enqueue(messages(2), call),
        claim: () => outbox.claim({ owner, ...call }),
        ack: () => outbox.ack(owner, [message!], call),
        abandon: () => outbox.abandon(owner, [message!], call),
        fail: () => outbox.fail(owner, [message!], "no", call),
        release: () => outbox.release(owner, [{ id: message!.id }], call),
        renew: () => outbox.renew(owner, [message!], 1_000, call),
        reapExpired: () => outbox.reapExpired(call),
        purgeDone: () => outbox.purgeDone(call),
        get: () => outbox.get({ id: message!.id }, call),
        list: () => outbox.list(call),
        stats: () => outbox.stats(call),
        replay: () => outbox.replay([message!], call),
        transaction: () => outbox.transaction(async () => {}, call),
      };
      for (const [name, aborted] of Object.entries(calls)) await expect(aborted(), name).rejects.toBe(reason);
      expect((await outbox.list()).messages).toEqual([message]);
    });

    it("OBX-080 an abort while the call waits for the database rejects with the reason, and leaves nothing half done", async () => {
      const { outbox, names, owner, held } = await box();
      const [message] = await held(1);
      const stop = new AbortController();
      const reason = new Error("time is up");
      const embedded = database().db.dialect.name === "sqlite";
      let finish = (): void => {};
      const finished = new Promise<void>((resolve) => {
        finish = resolve;
      });
      let locked = (): void => {};
      const isLocked = new Promise<void>((resolve) => {
        locked = resolve;
      });
      const holding = database().db.driver.transaction(async (tx) => {
        if (!embedded) {
          const lock = `update ${names.state} set attempt = attempt where seq = ${message!.seq}`;
          await tx.query({ name: "lock", text: lock, unprepared: true }, {});
        }
        locked();
        await finished;
      });
      await isLocked;
      const settled = outbox.ack(owner, [message!], { signal: stop.signal }).then(
        () => "acked",
        (error: unknown) => error,
      );
      setImmediate(() => stop.abort(reason));
      stop.signal.addEventListener("abort", () => setImmediate(finish));

      expect(await settled).toBe(reason);
      await holding;
      // the server may have gone on without us: then it did all of it
      await outbox.ack(owner, [message!]);
      expect(await stored(outbox, message!)).toMatchObject({ state: "Done", attempt: 0, owner: null });
    });
  });
}
