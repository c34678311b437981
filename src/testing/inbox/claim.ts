import { afterEach, describe, expect, it, vi } from "vitest";
import { ArgumentRangeError, InvalidArgumentError } from "../../errors.js";
import { newOwnerToken, type OwnerToken } from "../../queue/owner-token.js";
import { held, type InboxContext, keysOf, stored } from "./support.js";

const emptyGuid = "00000000-0000-0000-0000-000000000000";
const minute = 60_000;
const hour = 60 * minute;

export function claimTests(context: InboxContext): void {
  const { freshInbox, message, messages } = context;

  describe("claim", () => {
    afterEach(() => {
      vi.useRealTimers();
    });

    it("IBX-031 a message that was only seen, or is marked as processing by hand, is not claimed", async () => {
      const { inbox, owner, clock } = await freshInbox();
      const [seen, marked, enqueued] = messages(3);
      await inbox.alreadyProcessed(seen!);
      await inbox.alreadyProcessed(marked!);
      await inbox.markProcessing(marked!);
      await inbox.receive(enqueued!);
      expect(keysOf(await inbox.claim({ owner }))).toEqual(keysOf([enqueued!]));
      await inbox.ack(owner, [enqueued!]);
      clock.advance(24 * hour);
      expect(await inbox.claim({ owner })).toEqual([]);
      expect((await stored(inbox, seen!)).state).toBe("Seen");
      expect((await stored(inbox, marked!)).state).toBe("Processing");
    });

    it("IBX-032 only what is due is claimed, at the very millisecond it becomes due", async () => {
      const { inbox, owner, clock } = await freshInbox();
      const at = (ms: number) => message({ dueAt: new Date(clock().getTime() + ms) });
      const [past, now, soon, later] = [at(-1), at(0), at(1), at(2)];
      const none = message();
      await inbox.enqueue([later, soon, now, past, none]);
      expect(keysOf(await inbox.claim({ owner }))).toEqual(keysOf([past, now, none]));
      clock.advance(1);
      expect(keysOf(await inbox.claim({ owner }))).toEqual(keysOf([soon]));
      clock.advance(1);
      expect(keysOf(await inbox.claim({ owner }))).toEqual(keysOf([later]));
    });

    it("IBX-033 a leased message is nobody else's to claim until the lease is over", async () => {
      const { inbox, owner, clock } = await freshInbox();
      const leased = await held(inbox, owner, message(), minute);
      const other = newOwnerToken();
      expect(await inbox.claim({ owner: other })).toEqual([]);
      expect(await inbox.claim({ owner })).toEqual([]);
      clock.advance(minute - 1);
      expect(await inbox.claim({ owner: other })).toEqual([]);
      clock.advance(2_001); // the rest of the lease, and the back-off after it
      expect(keysOf(await inbox.claim({ owner: other }))).toEqual(keysOf([leased]));
      expect(await stored(inbox, leased)).toMatchObject({ owner: other, attempt: 1, afterCrash: true });
    });

    it("IBX-034 the lease ends leaseMs after the claim", async () => {
      const { inbox, owner, clock } = await freshInbox();
      await inbox.enqueue(messages(3));
      for (const leaseMs of [1, 45_000, 86_400_000]) {
        const [claimed] = await inbox.claim({ owner, leaseMs, batchSize: 1 });
        const lockedUntil = new Date(clock().getTime() + leaseMs);
        expect(claimed!.lockedUntil).toEqual(lockedUntil);
        expect((await stored(inbox, claimed!)).lockedUntil).toEqual(lockedUntil);
      }
    });

    it("IBX-035 the owner is the claimer's token, whatever its case", async () => {
      const { inbox } = await freshInbox();
      await inbox.enqueue(messages(2));
      const owner = "0A1B2C3D-4E5F-4A6B-8C7D-9E0F1A2B3C4D" as OwnerToken;
      const claimed = await inbox.claim({ owner });
      expect(claimed.map((one) => one.owner)).toEqual([owner.toLowerCase(), owner.toLowerCase()]);
      for (const one of claimed) expect((await stored(inbox, one)).owner).toBe(owner.toLowerCase());
      expect((await inbox.ack(owner, claimed)).changed).toHaveLength(2);
    });

    it("IBX-036 a claim brings the keys of what it leased, and the whole messages with them", async () => {
      const { inbox, owner, clock } = await freshInbox();
      const full = message({ correlationId: "c-1", headers: { a: "b" }, hash: Uint8Array.of(1, 2, 3) });
      const plain = message({ source: "other" });
      await inbox.enqueue([full, plain]);
      const claimed = await inbox.claim({ owner });
      expect(keysOf(claimed)).toEqual(keysOf([full, plain]));
      for (const one of claimed) expect(await stored(inbox, one)).toEqual(one);
      const { hash, ...content } = full;
      expect(claimed.find((one) => one.messageId === full.messageId)).toMatchObject({
        ...content,
        state: "Processing",
        attempt: 0,
        owner,
        firstSeenAt: clock(),
        deliveries: 1,
        afterCrash: false,
      });
      expect((await inbox.stats()).due).toBe(0);
    });

    it("IBX-037 with nothing to claim a claim is empty", async () => {
      const { inbox, owner } = await freshInbox();
      expect(await inbox.claim({ owner })).toEqual([]);
      await inbox.receive(message());
      expect(await inbox.claim({ owner })).toHaveLength(1);
      expect(await inbox.claim({ owner })).toEqual([]);
    });

    it("IBX-038 done and dead messages are never claimed, however they became so", async () => {
      const { inbox, owner, clock } = await freshInbox({ retry: { maxAttempts: 1 } });
      const [acked, failed, abandoned, markedDone, markedDead] = messages(5);
      await inbox.enqueue([acked!, failed!, abandoned!]);
      await inbox.claim({ owner });
      await inbox.ack(owner, [acked!]);
      await inbox.fail(owner, [failed!], "broken");
      await inbox.abandon(owner, [abandoned!]);
      await inbox.enqueue([markedDone!, markedDead!]);
      await inbox.markProcessed(markedDone!);
      await inbox.markDead(markedDead!, "by hand");
      for (const wait of [0, hour, 365 * 24 * hour]) {
        clock.advance(wait);
        expect(await inbox.claim({ owner })).toEqual([]);
      }
      expect((await inbox.stats()).counts).toEqual({ Seen: 0, Processing: 0, Done: 2, Dead: 3 });
    });

    it("IBX-039 a claim never brings more than batchSize, and the rest stays for the next", async () => {
      const { inbox, owner } = await freshInbox();
      const all = messages(25);
      await inbox.enqueue(all);
      const sizes = [];
      const claimed = [];
      for (const batchSize of [1, 10, 10, 10]) {
        const batch = await inbox.claim({ owner, batchSize });
        sizes.push(batch.length);
        claimed.push(...batch);
      }
      expect(sizes).toEqual([1, 10, 10, 4]);
      expect(keysOf(claimed)).toEqual(keysOf(all));
    });

    it("IBX-039 those that have been due the longest come first", async () => {
      const { inbox, owner, clock } = await freshInbox();
      const at = (ms: number) => message({ dueAt: new Date(clock().getTime() + ms) });
      const [third, first, second] = [at(3), at(1), at(2)];
      await inbox.enqueue([third, first, second]);
      clock.advance(10);
      for (const next of [first, second, third]) {
        expect(keysOf(await inbox.claim({ owner, batchSize: 1 }))).toEqual(keysOf([next]));
      }
    });

    it("IBX-040 a lease of zero, less, or no number is refused", async () => {
      const { inbox, owner } = await freshInbox();
      await inbox.receive(message());
      for (const leaseMs of [0, -1, -0.5, Number.NaN, Number.POSITIVE_INFINITY, 1e15, "30000"]) {
        const claim = inbox.claim({ owner, leaseMs: leaseMs as number });
        await expect(claim).rejects.toThrow(ArgumentRangeError);
      }
      expect((await inbox.stats()).due).toBe(1);
    });

    it("IBX-041 a batch of zero, less, a fraction, or more than a thousand is refused", async () => {
      const { inbox, owner } = await freshInbox();
      await inbox.receive(message());
      for (const batchSize of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 1_001, "5"]) {
        const claim = inbox.claim({ owner, batchSize: batchSize as number });
        await expect(claim).rejects.toThrow(ArgumentRangeError);
      }
      expect((await inbox.stats()).due).toBe(1);
    });

    it("IBX-042 an abandoned message is not claimed before its back-off has passed", async () => {
      const { inbox, owner, clock } = await freshInbox();
      const incoming = message();
      let claimed = [await held(inbox, owner, incoming)] as readonly { messageId: string; source: string }[];
      for (const backoffMs of [2_000, 4_000, 8_000]) {
        await inbox.abandon(owner, claimed);
        expect(await inbox.claim({ owner })).toEqual([]);
        clock.advance(backoffMs - 1);
        expect(await inbox.claim({ owner })).toEqual([]);
        clock.advance(1);
        claimed = await inbox.claim({ owner });
        expect(keysOf(claimed)).toEqual(keysOf([incoming]));
      }
    });

    it("IBX-042 the back-off of one message does not hold up the others", async () => {
      const { inbox, owner } = await freshInbox();
      const failing = message();
      await inbox.abandon(owner, [await held(inbox, owner, failing)]);
      const sound = messages(3);
      await inbox.enqueue(sound);
      expect(keysOf(await inbox.claim({ owner }))).toEqual(keysOf(sound));
    });

    it("IBX-043 a claim with the empty owner token, or none, is refused", async () => {
      const { inbox } = await freshInbox();
      await inbox.receive(message());
      for (const owner of [emptyGuid, "", "me", null, undefined, 7]) {
        const claim = inbox.claim({ owner: owner as OwnerToken });
        await expect(claim).rejects.toThrow(InvalidArgumentError);
      }
      await expect(inbox.claim(undefined as never)).rejects.toThrow(InvalidArgumentError);
      expect((await inbox.stats()).due).toBe(1);
    });

    it("IBX-130 every method that takes an owner token refuses the empty one and changes nothing", async () => {
      const { inbox, owner } = await freshInbox();
      const leased = await held(inbox, owner, message());
      for (const wrong of [emptyGuid, "", "me", null] as OwnerToken[]) {
        const calls = [
          async () => inbox.claim({ owner: wrong }),
          async () => inbox.ack(wrong, [leased]),
          async () => inbox.abandon(wrong, [leased]),
          async () => inbox.fail(wrong, [leased], "broken"),
          async () => inbox.release(wrong, [leased]),
          async () => inbox.renew(wrong, [leased], 30_000),
        ];
        for (const call of calls) await expect(call()).rejects.toThrow(InvalidArgumentError);
      }
      expect(await stored(inbox, leased)).toEqual(leased);
    });

    it("IBX-130 a wrong owner token rejects the promise; no method throws before there is one", async () => {
      const { inbox, owner } = await freshInbox();
      const leased = await held(inbox, owner, message());
      const wrong = emptyGuid as OwnerToken;
      const calls: Record<string, () => Promise<unknown>> = {
        claim: () => inbox.claim({ owner: wrong }),
        ack: () => inbox.ack(wrong, [leased]),
        abandon: () => inbox.abandon(wrong, [leased]),
        fail: () => inbox.fail(wrong, [leased], "broken"),
        release: () => inbox.release(wrong, [leased]),
        renew: () => inbox.renew(wrong, [leased], 30_000),
      };
      const throwing: string[] = [];
      for (const [name, call] of Object.entries(calls)) {
        try {
          await call().catch(() => {});
        } catch {
          throwing.push(name);
        }
      }
      expect(throwing).toEqual([]);
    });

    it("IBX-119 leases of 10 to 300 seconds hold for that long, and the default is one of them", async () => {
      const { inbox, owner, clock } = await freshInbox();
      for (const leaseMs of [undefined, 10_000, 300_000]) {
        const incoming = message();
        await inbox.receive(incoming);
        const [claimed] = await inbox.claim({ owner, ...(leaseMs === undefined ? {} : { leaseMs }) });
        const lasts = claimed!.lockedUntil!.getTime() - clock().getTime();
        expect(lasts).toBe(leaseMs ?? 30_000);
        expect(lasts).toBeGreaterThanOrEqual(10_000);
        expect(lasts).toBeLessThanOrEqual(300_000);
        clock.advance(lasts - 1);
        expect(await inbox.claim({ owner: newOwnerToken() })).toEqual([]);
        expect((await inbox.ack(owner, [claimed!])).changed).toHaveLength(1);
      }
    });

    it("IBX-120 batches of 1 to 100 come whole, and the default is one of them", async () => {
      const { inbox, owner } = await freshInbox();
      await inbox.enqueue(messages(300));
      expect(await inbox.claim({ owner, batchSize: 1 })).toHaveLength(1);
      expect(await inbox.claim({ owner, batchSize: 100 })).toHaveLength(100);
      const byDefault = await inbox.claim({ owner });
      expect(byDefault.length).toBeGreaterThanOrEqual(1);
      expect(byDefault.length).toBeLessThanOrEqual(100);
      expect(byDefault).toHaveLength(50);
    });

    it("IBX-024 IBX-032 with the process's clock years behind, what is due can be claimed, and what is not cannot", async () => {
      const { inbox, owner } = await freshInbox({ realTime: true });
      const later = message({ dueAt: new Date(Date.now() + hour) });
      const due = message({ dueAt: new Date(Date.now() - hour) });
      vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2001, 0, 1) });
      const plain = message();
      await inbox.enqueue([later, due, plain]);
      expect(keysOf(await inbox.claim({ owner }))).toEqual(keysOf([due, plain]));
    });

    it("IBX-032 with the process's clock years ahead, what is not due cannot be claimed", async () => {
      const { inbox, owner } = await freshInbox({ realTime: true });
      const later = message({ dueAt: new Date(Date.now() + hour) });
      vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2099, 0, 1) });
      const plain = message();
      await inbox.enqueue([later, plain]);
      expect(keysOf(await inbox.claim({ owner }))).toEqual(keysOf([plain]));
    });

    it("IBX-033 IBX-034 a lease holds whatever the clocks of the processes say", async () => {
      const { inbox, owner } = await freshInbox({ realTime: true });
      const realMs = Date.now();
      vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2001, 0, 1) });
      const leased = await held(inbox, owner, message(), 5 * minute);
      expect(Math.abs(leased.lockedUntil!.getTime() - realMs)).toBeLessThan(15 * minute);
      vi.setSystemTime(Date.UTC(2099, 0, 1));
      expect(await inbox.claim({ owner: newOwnerToken() })).toEqual([]);
      expect(await inbox.reapExpired()).toMatchObject({ reaped: 0, dead: 0 });
      expect((await inbox.ack(owner, [leased])).changed).toHaveLength(1);
    });
  });
}
