import { randomUUID } from "node:crypto";
import { expect, it } from "vitest";
import { ArgumentRangeError, InvalidArgumentError } from "../../errors.js";
import type { OutboxKey } from "../../queue/message.js";
import { newOwnerToken, type OwnerToken } from "../../queue/owner-token.js";
import type { ContractHarness } from "../harness.js";
import { type Box, idsOf, messages, outboxTheme, stored, watched } from "./support.js";

const nothing = { changed: [], lost: [], dead: [] };

/** The three ways to settle, and the two ways to keep or hand back, called alike. */
const verbs = {
  ack: ({ outbox }: Box, owner: OwnerToken, keys: readonly OutboxKey[]) => outbox.ack(owner, keys),
  abandon: ({ outbox }: Box, owner: OwnerToken, keys: readonly OutboxKey[]) => outbox.abandon(owner, keys),
  fail: ({ outbox }: Box, owner: OwnerToken, keys: readonly OutboxKey[]) => outbox.fail(owner, keys, "no"),
  release: ({ outbox }: Box, owner: OwnerToken, keys: readonly OutboxKey[]) => outbox.release(owner, keys),
  renew: ({ outbox }: Box, owner: OwnerToken, keys: readonly OutboxKey[]) => outbox.renew(owner, keys, 1_000),
} as const;
type Verb = keyof typeof verbs;

export function settleContract(harness: ContractHarness): void {
  outboxTheme(harness, "settle", ({ database, box }) => {
    /** A foreign owner, a stale owner and unknown ids change nothing and throw nothing. */
    const changesNothingForOthers = async (verb: Verb) => {
      const made = await box();
      const [message] = await made.held(1);
      const before = await stored(made.outbox, message!);
      const foreign = await verbs[verb](made, newOwnerToken(), [message!]);
      expect(foreign).toMatchObject({ changed: [], dead: [] });
      expect(idsOf(foreign.lost)).toEqual([message!.id]);
      expect(await stored(made.outbox, message!)).toEqual(before);

      // the lease ran out and another worker has it now
      made.clock.advance(60_000);
      const heir = newOwnerToken();
      const [again] = await made.outbox.claim({ owner: heir });
      const stale = await verbs[verb](made, made.owner, [message!]);
      expect(stale.changed).toEqual([]);
      expect(idsOf(stale.lost)).toEqual([message!.id]);
      expect(await stored(made.outbox, message!)).toEqual(again);
      expect((await made.outbox.ack(heir, [again!])).changed).toHaveLength(1);
    };

    const ignoresUnknown = async (verb: Verb) => {
      const made = await box();
      const [message] = await made.held(1);
      const unknown = { id: randomUUID() };
      const result = await verbs[verb](made, made.owner, [unknown, { id: message!.id }]);
      expect(idsOf(result.changed)).toEqual([message!.id]);
      expect(idsOf(result.lost)).toEqual([unknown.id]);
      expect((await verbs[verb](made, made.owner, [unknown])).changed).toEqual([]);
    };

    it("OBX-030 ack makes the message Done and processed", async () => {
      const { outbox, owner, held, view } = await box();
      const [message] = await held(1);
      const result = await outbox.ack(owner, [message!]);

      expect(idsOf(result.changed)).toEqual([message!.id]);
      expect(result).toMatchObject({ lost: [], dead: [] });
      expect(await stored(outbox, message!)).toMatchObject({ state: "Done", owner: null, lockedUntil: null });
      const [row] = await view();
      expect([Number(row!.IsProcessed), Number(row!.Status)]).toEqual([1, 2]);
    });

    it("OBX-031 ack records when", async () => {
      const { outbox, owner, held, clock } = await box();
      const [message] = await held(1);
      clock.advance(1_234);
      await outbox.ack(owner, [message!]);
      expect((await stored(outbox, message!)).processedAt).toEqual(clock());
    });

    it("OBX-032 ack records by whom: the owner's token, or the name given to the store", async () => {
      const plain = await box();
      const [first] = await plain.held(1);
      await plain.outbox.ack(plain.owner, [first!]);
      expect((await stored(plain.outbox, first!)).processedBy).toBe(plain.owner);

      const processedBy = `dispatcher ${"ü".repeat(89)}`;
      const named = await box({ processedBy });
      const [second] = await named.held(1);
      await named.outbox.ack(named.owner, [second!]);
      expect((await stored(named.outbox, second!)).processedBy).toBe(processedBy);
    });

    it("OBX-033 acks only rows its owner holds", () => changesNothingForOthers("ack"));

    it("OBX-033 acks its own rows of a batch and reports the others as lost", async () => {
      const { outbox, owner } = await box();
      await outbox.enqueue(messages(4));
      const mine = await outbox.claim({ owner, batchSize: 2 });
      const other = newOwnerToken();
      const theirs = await outbox.claim({ owner: other, batchSize: 2 });
      const result = await outbox.ack(owner, [...mine, ...theirs]);

      expect(idsOf(result.changed)).toEqual(idsOf(mine));
      expect(idsOf(result.lost)).toEqual(idsOf(theirs));
      for (const message of theirs) expect((await stored(outbox, message)).state).toBe("InProgress");
      expect((await outbox.ack(other, theirs)).changed).toHaveLength(2);
    });

    it("OBX-034 ack passes over ids that do not exist", () => ignoresUnknown("ack"));

    it("OBX-034 a second ack of the same message changes nothing", async () => {
      const { outbox, owner, held, clock } = await box();
      const done = await held(1);
      await outbox.ack(owner, done);
      const before = await stored(outbox, done[0]!);
      clock.advance(1_000);
      expect(idsOf((await outbox.ack(owner, done)).lost)).toEqual(idsOf(done));
      expect(await stored(outbox, done[0]!)).toEqual(before);
    });

    it("OBX-035 what was acked does not come back, by lease, reaping or time", async () => {
      const { outbox, owner, held, clock } = await box();
      await outbox.ack(owner, await held(3));
      clock.advance(86_400_000);
      expect(await outbox.reapExpired()).toMatchObject({ reaped: 0, dead: 0 });
      expect(await outbox.claim({ owner })).toEqual([]);
    });

    it("OBX-036 null ids are refused, an empty list does nothing and asks nothing", async () => {
      const made = await box();
      const db = watched(database().db);
      const quiet = { ...made, outbox: made.on(db) };
      for (const verb of Object.keys(verbs) as Verb[]) {
        for (const wrong of [null, undefined, "x", 7, new Set()]) {
          const call = async () => verbs[verb](quiet, made.owner, wrong as unknown as OutboxKey[]);
          await expect(call, `${verb} ${String(wrong)}`).rejects.toBeInstanceOf(InvalidArgumentError);
        }
        expect(await verbs[verb](quiet, made.owner, []), verb).toEqual(nothing);
      }
      expect(await quiet.outbox.replay([])).toEqual(nothing);
      expect(db.calls).toEqual([]);
    });

    it("OBX-036 an id given twice counts once", async () => {
      for (const verb of Object.keys(verbs) as Verb[]) {
        const made = await box();
        const [message] = await made.held(1);
        const keys = [message!, { id: message!.id }, { id: message!.id.toUpperCase() }, message!];
        const result = await verbs[verb](made, made.owner, keys);
        expect(
          idsOf(result.changed).map((id) => id.toLowerCase()),
          verb,
        ).toEqual([message!.id]);
        expect(result.lost, verb).toEqual([]);
        const attempts = { ack: 0, abandon: 1, fail: 1, release: 0, renew: 0 }[verb];
        expect((await stored(made.outbox, message!)).attempt, verb).toBe(attempts);
      }
    });

    it("OBX-036 ids that are no GUIDs, and owner tokens that are none, are refused by rejecting", async () => {
      const made = await box();
      const [message] = await made.held(1);
      const empty = "00000000-0000-0000-0000-000000000000" as OwnerToken;
      for (const verb of Object.keys(verbs) as Verb[]) {
        for (const key of [{ id: "7" }, {}, null, "x"]) {
          const call = async () => verbs[verb](made, made.owner, [key as OutboxKey]);
          await expect(call, verb).rejects.toBeInstanceOf(InvalidArgumentError);
        }
        for (const owner of [empty, "" as OwnerToken, undefined as unknown as OwnerToken]) {
          let thrown: unknown;
          let answer: Promise<unknown> = Promise.resolve();
          try {
            answer = verbs[verb](made, owner, [message!]);
          } catch (error) {
            thrown = error;
          }
          expect(thrown, `${verb} throws instead of rejecting`).toBeUndefined();
          await expect(answer, verb).rejects.toBeInstanceOf(InvalidArgumentError);
        }
      }
      expect(await stored(made.outbox, message!)).toEqual(message);
    });

    it("OBX-037 abandon gives the lease up", async () => {
      const { outbox, owner, held } = await box();
      const [message] = await held(1);
      const result = await outbox.abandon(owner, [message!]);

      expect(idsOf(result.changed)).toEqual([message!.id]);
      expect(await stored(outbox, message!)).toMatchObject({
        state: "Ready",
        owner: null,
        lockedUntil: null,
      });
    });

    it("OBX-038 abandon counts an attempt, each time", async () => {
      const { outbox, owner, held, clock, view } = await box();
      const [message] = await held(1);
      await outbox.abandon(owner, [message!]);
      expect((await stored(outbox, message!)).attempt).toBe(1);
      clock.advance(60_000);
      const [again] = await outbox.claim({ owner });
      expect(again!.attempt).toBe(1);
      await outbox.abandon(owner, [again!]);
      expect((await stored(outbox, message!)).attempt).toBe(2);
      expect(Number((await view())[0]!.RetryCount)).toBe(2);
    });

    it("OBX-040 abandons only rows its owner holds", () => changesNothingForOthers("abandon"));

    it("OBX-041 abandon passes over ids that do not exist", () => ignoresUnknown("abandon"));

    it("OBX-043 abandon records the error, of the call or of each message, and keeps the last one known", async () => {
      const { outbox, owner, held, clock } = await box();
      const [a, b, c] = await held(3);
      await outbox.abandon(owner, [{ message: a!, error: "its own" }, b!, { message: c!, error: null }], {
        error: "of the call",
      });
      const errors = async () =>
        Promise.all([a!, b!, c!].map(async (key) => (await stored(outbox, key)).lastError));
      expect(await errors()).toEqual(["its own", "of the call", "of the call"]);

      clock.advance(60_000);
      await outbox.abandon(owner, await outbox.claim({ owner }));
      expect(await errors()).toEqual(["its own", "of the call", "of the call"]);
    });

    it("OBX-043 each abandoned message may have a delay of its own", async () => {
      const { outbox, owner, held, clock } = await box();
      const [a, b, c] = await held(3);
      const result = await outbox.abandon(owner, [{ message: a!, delayMs: 100 }, { message: b! }, c!], {
        delayMs: 700,
      });
      const waits = await Promise.all(
        [a!, b!, c!].map(
          async (key) => (await stored(outbox, key)).nextAttemptAt.getTime() - clock().getTime(),
        ),
      );
      expect(waits).toEqual([100, 700, 700]);
      expect(result.changed).toHaveLength(3);
      for (const delayMs of [0, -1, Number.NaN]) {
        const call = async () => outbox.abandon(owner, [a!], { delayMs });
        await expect(call).rejects.toBeInstanceOf(ArgumentRangeError);
        const own = async () => outbox.abandon(owner, [{ message: a!, delayMs }]);
        await expect(own).rejects.toBeInstanceOf(ArgumentRangeError);
      }
    });

    it("OBX-044 fail makes the message Failed for good, and says so to onDead", async () => {
      const { outbox, owner, held, clock, dead, view } = await box();
      const [message] = await held(1);
      const result = await outbox.fail(owner, [message!], "cannot be sent");

      expect(idsOf(result.changed)).toEqual([message!.id]);
      expect(idsOf(result.dead)).toEqual([message!.id]);
      expect(await stored(outbox, message!)).toMatchObject({
        state: "Failed",
        owner: null,
        lockedUntil: null,
      });
      expect(dead).toEqual([{ id: message!.id, reason: "cannot be sent" }]);
      const [row] = await view();
      expect([Number(row!.IsProcessed), Number(row!.Status)]).toEqual([0, 3]);
      clock.advance(86_400_000);
      expect(await outbox.claim({ owner })).toEqual([]);
    });

    it("OBX-045 fail records the error: any text, cut to what can be read, empty as none", async () => {
      const { outbox, owner, held } = await box();
      const [a, b, c] = await held(3);
      await outbox.fail(owner, [a!], "410 Gone 😀 'quoted'");
      await outbox.fail(owner, [b!], `a\0b\uD800${"x".repeat(100_000)}`);
      await outbox.fail(owner, [c!], "");

      expect((await stored(outbox, a!)).lastError).toBe("410 Gone 😀 'quoted'");
      expect((await stored(outbox, b!)).lastError).toMatch(/^a\uFFFDb\uFFFDx+$/);
      expect((await stored(outbox, b!)).lastError!.length).toBeLessThan(10_000);
      expect((await stored(outbox, c!)).lastError).toBeNull();
      for (const wrong of [undefined, null, new Error("x")]) {
        const call = async () => outbox.fail(owner, [a!], wrong as unknown as string);
        await expect(call).rejects.toBeInstanceOf(InvalidArgumentError);
      }
    });

    it("OBX-046 fails only rows its owner holds", async () => {
      await changesNothingForOthers("fail");
      const { outbox, held, dead } = await box();
      await outbox.fail(newOwnerToken(), await held(1), "no");
      expect(dead).toEqual([]);
    });

    it("OBX-047 fail passes over ids that do not exist", () => ignoresUnknown("fail"));

    it("OBX-048 what failed does not come back, by lease, reaping or time", async () => {
      const { outbox, owner, held, clock } = await box();
      await outbox.fail(owner, await held(2), "no");
      clock.advance(86_400_000);
      expect(await outbox.reapExpired()).toMatchObject({ reaped: 0, dead: 0 });
      expect(await outbox.claim({ owner })).toEqual([]);
    });

    it("OBX-033 release gives back only what its owner holds, at no attempt and at once", async () => {
      await changesNothingForOthers("release");
      await ignoresUnknown("release");
      const { outbox, owner, held } = await box();
      const claimed = await held(3);
      const result = await outbox.release(owner, claimed);

      expect(idsOf(result.changed)).toEqual(idsOf(claimed));
      for (const message of claimed) {
        expect(await stored(outbox, message)).toMatchObject({
          state: "Ready",
          attempt: 0,
          owner: null,
          lockedUntil: null,
        });
      }
      expect(idsOf(await outbox.claim({ owner: newOwnerToken() }))).toEqual(idsOf(claimed));
    });

    it("OBX-033 renew extends only the leases its owner holds", async () => {
      await changesNothingForOthers("renew");
      await ignoresUnknown("renew");
      const { outbox, owner, held, clock } = await box();
      const [message] = await held(1);
      clock.advance(25_000);
      expect((await outbox.renew(owner, [message!], 30_000)).changed).toHaveLength(1);
      expect((await stored(outbox, message!)).lockedUntil).toEqual(new Date(clock().getTime() + 30_000));

      clock.advance(29_000); // far past the first lease and its back-off
      expect(await outbox.claim({ owner: newOwnerToken() })).toEqual([]);
      expect(await outbox.reapExpired()).toMatchObject({ reaped: 0 });
      expect((await outbox.ack(owner, [message!])).changed).toHaveLength(1);
      expect((await stored(outbox, message!)).attempt).toBe(0);
      for (const leaseMs of [0, -1, Number.NaN]) {
        const call = async () => outbox.renew(owner, [message!], leaseMs);
        await expect(call).rejects.toBeInstanceOf(ArgumentRangeError);
      }
    });

    it("OBX-033 what was released, abandoned or failed is no longer the owner's to settle", async () => {
      for (const first of ["ack", "abandon", "fail", "release"] as const) {
        for (const second of Object.keys(verbs) as Verb[]) {
          const made = await box();
          const claimed = await made.held(1);
          await verbs[first](made, made.owner, claimed);
          const before = await stored(made.outbox, claimed[0]!);
          const result = await verbs[second](made, made.owner, claimed);
          expect(result.changed, `${second} after ${first}`).toEqual([]);
          expect(await stored(made.outbox, claimed[0]!), `${second} after ${first}`).toEqual(before);
        }
      }
    });

    it("OBX-044 an onDead that throws is logged, and the settlement stands", async () => {
      const { outbox, owner, held, log } = await box({
        onDead: () => {
          throw new Error("the alarm is broken");
        },
      });
      const claimed = await held(2);
      expect((await outbox.fail(owner, claimed, "no")).changed).toHaveLength(2);
      expect(log.filter((line) => line.level === "error" && line.message === "onDead failed")).toHaveLength(
        2,
      );
    });
  });
}
