import { afterEach, describe, expect, it, vi } from "vitest";
import { omitUndefined } from "../../../src/base/defined.js";
import { ArgumentRangeError, InvalidArgumentError } from "../../../src/errors.js";
import { newOwnerToken, type OwnerToken } from "../../../src/queue/leases.js";
import { skipUnless } from "../harness.js";
import { watched } from "../support/watched.js";
import { type AnyMessage, messages, outcomeOf, type QueueContext, verbNames, verbs } from "./support.js";

const emptyGuid = "00000000-0000-0000-0000-000000000000";
const minute = 60_000;
const hour = 60 * minute;
const year = 365 * 24 * hour;

/** Which messages a claim returns, and for how long. */
export function claimTests({ database, queue, ids, addedAt, counts }: QueueContext): void {
  describe("claim", () => {
    afterEach(() => {
      vi.useRealTimers();
    });

    it("IBX-030 OBX-017 passes over a row that another transaction has locked, without waiting", async (test) => {
      skipUnless(test, database(), "rowLocks");
      const { store, owner, names, stored } = await queue();
      const keys = await store.add(messages(5));
      const { seq } = await stored(keys[0]!);
      const other = await database().begin();
      try {
        await other.run(`update ${names.state} set attempt = attempt where seq = ${seq}`);
        expect(ids(await store.claim({ owner }))).toEqual(ids(keys.slice(1)));
      } finally {
        await other.rollback();
      }
      expect(ids(await store.claim({ owner }))).toEqual(ids(keys.slice(0, 1)));
    });

    it("IBX-023 IBX-024 IBX-032 OBX-012 OBX-013 OBX-018 claims a message from the millisecond at which it is due, and at once without a due time", async () => {
      const { store, owner, clock } = await queue();
      const dueIn = (ms: number) => ({ topic: "t", payload: "", dueAt: new Date(clock().getTime() + ms) });
      const unset = messages(1, { dueAt: null });
      const added = [dueIn(1_000), dueIn(2), dueIn(1), dueIn(0), dueIn(-1), ...messages(1), ...unset];
      const [later, second, first, ...due] = await store.add(added);
      expect(ids(await store.claim({ owner }))).toEqual(ids(due));
      clock.advance(1);
      expect(ids(await store.claim({ owner }))).toEqual(ids([first!]));
      clock.advance(1);
      expect(ids(await store.claim({ owner }))).toEqual(ids([second!]));
      clock.advance(997);
      expect(await store.claim({ owner })).toEqual([]);
      clock.advance(1);
      expect(ids(await store.claim({ owner }))).toEqual(ids([later!]));
    });

    it("IBX-033 OBX-019 does not claim a leased message until its lease and the back-off after it are over", async () => {
      const { store, owner, clock, stored } = await queue();
      await store.add(messages(1));
      const leased = await store.claim({ owner, leaseMs: minute });
      expect(leased).toHaveLength(1);
      const other = newOwnerToken();
      const expectNoClaim = async () => {
        expect(await store.claim({ owner: other })).toEqual([]);
        expect(await store.claim({ owner })).toEqual([]);
      };
      await expectNoClaim();
      clock.advance(minute - 1);
      await expectNoClaim();
      clock.advance(1);
      await expectNoClaim();
      clock.advance(1_999);
      await expectNoClaim();
      clock.advance(1);
      expect(ids(await store.claim({ owner: other }))).toEqual(ids(leased));
      expect(await stored(leased[0]!)).toMatchObject({ owner: other, attempt: 1, crashes: 1 });
    });

    it("IBX-033 IBX-034 OBX-019 OBX-020 a lease follows the database's clock, not that of a process", async () => {
      const { store, on, owner } = await queue({ realTime: true });
      const realMs = Date.now();
      vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2001, 0, 1) });
      await store.add(messages(1));
      const leased = await store.claim({ owner, leaseMs: 5 * minute });
      const lockedUntil = leased[0]!.lockedUntil!.getTime();
      expect(Math.abs(lockedUntil - realMs)).toBeLessThan(15 * minute);
      expect(lockedUntil - addedAt(leased[0]!).getTime()).toBeGreaterThanOrEqual(5 * minute);
      expect(lockedUntil - addedAt(leased[0]!).getTime()).toBeLessThan(6 * minute);

      vi.setSystemTime(Date.UTC(2099, 0, 1));
      const other = on(database().reopen());
      expect(await other.claim({ owner: newOwnerToken() })).toEqual([]);
      expect(await other.reapExpired()).toMatchObject({ reaped: 0, dead: 0 });
      expect((await store.ack(owner, leased)).changed).toHaveLength(1);
    });

    it("IBX-024 IBX-032 OBX-013 OBX-018 with the process's clock years behind, a message is claimed when it is due", async () => {
      const { store, owner } = await queue({ realTime: true });
      const dueAt = (ms: number) => ({ topic: "t", payload: "", dueAt: new Date(Date.now() + ms) });
      const added = [dueAt(hour), dueAt(-hour), ...messages(1)];
      vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2001, 0, 1) });
      const [, due, plain] = await store.add(added);
      expect(ids(await store.claim({ owner }))).toEqual(ids([due!, plain!]));
    });

    it("IBX-023 IBX-032 OBX-012 OBX-018 with the process's clock years ahead, a message is not claimed before it is due", async () => {
      const { store, owner } = await queue({ realTime: true });
      const dueAt = new Date(Date.now() + hour);
      vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2099, 0, 1) });
      await store.addOne({ topic: "t", payload: "", dueAt });
      const [, plain] = await store.add([...messages(1, { dueAt }), ...messages(1)]);
      expect(ids(await store.claim({ owner }))).toEqual(ids([plain!]));
    });

    it("IBX-035 OBX-021 writes the owner token, in lower case, on the claimed messages only", async () => {
      const { store, stored, view } = await queue();
      await store.add(messages(3));
      const owner = "0A1B2C3D-4E5F-4A6B-8C7D-9E0F1A2B3C4D" as OwnerToken;
      const claimed = await store.claim({ owner, batchSize: 2 });
      expect(claimed.map((message) => message.owner)).toEqual([owner.toLowerCase(), owner.toLowerCase()]);
      for (const message of claimed) expect((await stored(message)).owner).toBe(owner.toLowerCase());
      const owners = (await view()).map((row) => (row.OwnerToken as string | null)?.toLowerCase() ?? null);
      expect(owners.filter((token) => token === owner.toLowerCase())).toHaveLength(2);
      expect(owners.filter((token) => token === null)).toHaveLength(1);
      expect((await store.ack(owner, claimed)).changed).toHaveLength(2);
    });

    it("IBX-036 OBX-022 returns whole messages, in the same round trip", async () => {
      const { on, owner, clock, stored } = await queue();
      const db = watched(database().db);
      const store = on(db);
      const full = {
        topic: "order.created",
        payload: '{"n":1}',
        correlationId: "c-1",
        headers: { a: "b" },
      };
      const plain = { topic: "plain", payload: "p" };
      const keys = await store.add([full, plain]);
      db.calls.length = 0;
      const claimed = await store.claim({ owner });
      expect(db.calls).toEqual(["claim"]);

      expect(ids(claimed)).toEqual(ids(keys));
      const common = { attempt: 0, owner, crashes: 0 };
      expect(claimed).toMatchObject([
        { ...full, ...keys[0]!, ...common },
        { ...plain, ...keys[1]!, ...common, correlationId: null, headers: null },
      ]);
      for (const message of claimed) {
        expect(addedAt(message)).toEqual(clock());
        expect(await stored(message)).toEqual(message);
      }
      expect((await store.stats()).due).toBe(0);
    });

    it("IBX-037 OBX-023 returns an empty list when nothing is ready", async () => {
      const { store, owner } = await queue();
      expect(await store.claim({ owner })).toEqual([]);
      await store.add(messages(1));
      expect(await store.claim({ owner })).toHaveLength(1);
      expect(await store.claim({ owner })).toEqual([]);
      expect(await store.claim({ owner })).toEqual([]);
    });

    it("IBX-038 IBX-047 IBX-064 OBX-024 OBX-025 OBX-035 OBX-048 never claims a done or dead message, however much time passes", async () => {
      const { store, owner, held, clock } = await queue({ retry: { maxAttempts: 1 } });
      const [acked, failed, abandoned] = await held(3);
      await store.ack(owner, [acked!]);
      await store.fail(owner, [failed!], "broken");
      await store.abandon(owner, [abandoned!]);
      for (const wait of [0, hour, year]) {
        clock.advance(wait);
        expect(await store.reapExpired()).toEqual({ reaped: 0, dead: 0, more: false });
        expect(await store.claim({ owner })).toEqual([]);
      }
      expect((await store.stats()).counts).toEqual(counts({ done: 1, dead: 2 }));
    });

    it("IBX-039 IBX-120 OBX-026 OBX-098 claims batchSize messages, 50 by default, while there are as many", async () => {
      const { store, owner } = await queue();
      const keys = [...(await store.add(messages(1_000))), ...(await store.add(messages(156)))];
      const sizes: number[] = [];
      const claimed: AnyMessage[] = [];
      for (const batchSize of [1, 100, undefined, 1_000, 10]) {
        const batch = await store.claim(batchSize === undefined ? { owner } : { owner, batchSize });
        sizes.push(batch.length);
        claimed.push(...batch);
      }
      expect(sizes).toEqual([1, 100, 50, 1_000, 5]);
      expect(ids(claimed)).toEqual(ids(keys));
    });

    it("IBX-039 OBX-026 the messages that were due first come first", async () => {
      const { store, owner, clock } = await queue();
      const dueIn = (ms: number) => ({ topic: "t", payload: "", dueAt: new Date(clock().getTime() + ms) });
      const [third, first, second] = await store.add([dueIn(3), dueIn(1), dueIn(2)]);
      clock.advance(10);
      for (const next of [first!, second!, third!]) {
        expect(ids(await store.claim({ owner, batchSize: 1 }))).toEqual(ids([next]));
      }
    });

    it("IBX-040 OBX-027 refuses a lease time of zero or less, or of more than a year, and claims nothing", async () => {
      const { store, owner } = await queue();
      await store.add(messages(1));
      const wrong = [0, -1, -0.5, Number.NaN, Number.POSITIVE_INFINITY, 1e15, 400 * 86_400_000, "30000"];
      for (const leaseMs of wrong) {
        const call = async () => store.claim({ owner, leaseMs: leaseMs as number });
        await expect(call, String(leaseMs)).rejects.toBeInstanceOf(ArgumentRangeError);
        await expect(call).rejects.toThrow(/leaseMs/);
      }
      expect(await store.stats()).toMatchObject({ due: 1, counts: counts({ waiting: 1 }) });
    });

    it("IBX-041 OBX-028 refuses a batch size that is not an integer from 1 to 1,000, and claims nothing", async () => {
      const { store, owner } = await queue();
      await store.add(messages(1));
      for (const batchSize of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 1_001, "10"]) {
        const call = async () => store.claim({ owner, batchSize: batchSize as number });
        await expect(call, String(batchSize)).rejects.toBeInstanceOf(ArgumentRangeError);
        await expect(call).rejects.toThrow(/batchSize/);
      }
      expect(await store.stats()).toMatchObject({ due: 1, counts: counts({ waiting: 1 }) });
    });

    it("IBX-043 IBX-130 every method rejects an owner token that is empty or no GUID, and changes nothing", async () => {
      const { store, held, stored } = await queue();
      const [message] = await held(1);
      await store.add(messages(1));
      const calls = {
        claim: (owner: OwnerToken) => store.claim({ owner }),
        ...Object.fromEntries(
          verbNames.map((verb) => [verb, (owner: OwnerToken) => verbs[verb](store, owner, [message!])]),
        ),
      };
      for (const wrong of [emptyGuid, "", "worker-1", undefined, null, 7] as OwnerToken[]) {
        for (const [name, call] of Object.entries(calls)) {
          expect(await outcomeOf(() => call(wrong)), `${name} by ${wrong}`).toBe(
            "rejected InvalidArgumentError",
          );
        }
      }
      await expect(async () => store.claim(undefined as never)).rejects.toBeInstanceOf(InvalidArgumentError);
      expect(await stored(message!)).toEqual(message);
      expect((await store.stats()).due).toBe(1);
    });

    it("IBX-034 IBX-119 OBX-020 OBX-097 a lease lasts leaseMs, from a millisecond to a year, 30 s by default", async () => {
      const { store, owner, clock, stored } = await queue();
      for (const leaseMs of [undefined, 10_000, 300_000, 1, year]) {
        await store.add(messages(1));
        const [claimed] = await store.claim({ owner, ...omitUndefined({ leaseMs }) });
        const lastsMs = leaseMs ?? 30_000;
        expect(claimed!.lockedUntil).toEqual(new Date(clock().getTime() + lastsMs));
        expect((await stored(claimed!)).lockedUntil).toEqual(claimed!.lockedUntil);
        clock.advance(lastsMs - 1);
        expect(await store.claim({ owner: newOwnerToken() })).toEqual([]);
        expect((await store.ack(owner, [claimed!])).changed).toHaveLength(1);
      }
    });
  });
}
