import { expect, it } from "vitest";
import { ArgumentRangeError, InvalidArgumentError } from "../../errors.js";
import { newOwnerToken, type OwnerToken } from "../../queue/owner-token.js";
import type { ClaimOptions } from "../../queue/work-store.js";
import type { ContractHarness } from "../harness.js";
import { idsOf, isBabelfish, messages, outboxTheme, stored, watched } from "./support.js";

export function claimContract(harness: ContractHarness): void {
  outboxTheme(harness, "claim", ({ database, box }) => {
    it("OBX-017 selects and leases in one step: a second claimer gets only what is left", async () => {
      const { outbox, on, owner } = await box();
      const ids = await outbox.enqueue(messages(5));
      const first = await outbox.claim({ owner, batchSize: 3 });
      const second = await on(database().reopen()).claim({ owner: newOwnerToken(), batchSize: 100 });

      expect(first).toHaveLength(3);
      expect(second).toHaveLength(2);
      expect(idsOf([...first, ...second])).toEqual([...ids].sort());
    });

    it("OBX-017 passes over a row that another transaction has locked, without waiting for it (on SQLite nothing can lock one row)", async () => {
      const { outbox, owner, names } = await box();
      const ids = await outbox.enqueue(messages(3));
      if (database().db.dialect.name === "sqlite" || (await isBabelfish(database()))) {
        expect(idsOf(await outbox.claim({ owner }))).toEqual([...ids].sort());
        return;
      }
      const { seq } = await stored(outbox, { id: ids[0]! });
      const other = await database().begin();
      await other.run(`update ${names.state} set attempt = attempt where seq = ${seq}`);
      const claimed = await outbox.claim({ owner });
      await other.rollback();

      expect(idsOf(claimed)).toEqual([ids[1]!, ids[2]!].sort());
      expect(idsOf(await outbox.claim({ owner }))).toEqual([ids[0]]);
    });

    it("OBX-018 claims from the due time on and not before", async () => {
      const { outbox, owner, clock } = await box();
      const at = (ms: number) => new Date(clock().getTime() + ms);
      const [now, later, latest] = await outbox.enqueue([
        { topic: "t", payload: "now", dueAt: at(0) },
        { topic: "t", payload: "later", dueAt: at(1_000) },
        { topic: "t", payload: "latest", dueAt: at(2_000) },
      ]);
      expect(idsOf(await outbox.claim({ owner }))).toEqual([now]);
      clock.advance(1_000);
      expect(idsOf(await outbox.claim({ owner }))).toEqual([later]);
      clock.advance(1_000);
      expect(idsOf(await outbox.claim({ owner }))).toEqual([latest]);
    });

    it("OBX-019 leaves a leased message alone until the lease is over", async () => {
      const { outbox, owner, clock } = await box();
      const id = await outbox.enqueue({ topic: "t", payload: "" });
      await outbox.claim({ owner, leaseMs: 10_000 });
      clock.advance(10_000);
      expect(await outbox.claim({ owner: newOwnerToken() })).toEqual([]);

      clock.advance(2_000); // and the back-off of the attempt that the lost lease was
      expect(idsOf(await outbox.claim({ owner: newOwnerToken() }))).toEqual([id]);
    });

    it("OBX-019 the owner itself is not given again what it holds", async () => {
      const { outbox, owner } = await box();
      await outbox.enqueue(messages(2));
      expect(await outbox.claim({ owner })).toHaveLength(2);
      expect(await outbox.claim({ owner })).toEqual([]);
    });

    it("OBX-020 locks until now plus the lease: 30 s unless told otherwise", async () => {
      const { outbox, owner, clock } = await box();
      const [a, b] = await outbox.enqueue(messages(2));
      const [first] = await outbox.claim({ owner, batchSize: 1, leaseMs: 12_345 });
      const [second] = await outbox.claim({ owner, batchSize: 1 });
      const after = (ms: number) => new Date(clock().getTime() + ms);

      expect(first!.lockedUntil).toEqual(after(12_345));
      expect(second!.lockedUntil).toEqual(after(30_000));
      expect(idsOf([first!, second!])).toEqual([a!, b!].sort());
      expect((await stored(outbox, first!)).lockedUntil).toEqual(after(12_345));
    });

    it("OBX-020 takes the lease's start from the database's clock", async () => {
      const { outbox, owner } = await box({ realTime: true });
      await outbox.enqueue({ topic: "t", payload: "" });
      const [claimed] = await outbox.claim({ owner, leaseMs: 300_000 });
      expect(claimed!.lockedUntil!.getTime() - claimed!.createdAt.getTime()).toBeGreaterThanOrEqual(300_000);
      expect(claimed!.lockedUntil!.getTime() - claimed!.createdAt.getTime()).toBeLessThan(360_000);
    });

    it("OBX-021 writes the owner's token on what it claimed, and on nothing else", async () => {
      const { outbox, owner, view } = await box();
      await outbox.enqueue(messages(3));
      const claimed = await outbox.claim({ owner, batchSize: 2 });

      expect(claimed.map((message) => message.owner)).toEqual([owner, owner]);
      expect((await stored(outbox, claimed[0]!)).owner).toBe(owner);
      const owners = (await view()).map((row) => (row.OwnerToken as string | null)?.toLowerCase() ?? null);
      expect(owners.filter((token) => token === owner)).toHaveLength(2);
      expect(owners.filter((token) => token === null)).toHaveLength(1);
    });

    it("OBX-022 returns whole messages, in the same round trip", async () => {
      const { on, owner, clock } = await box();
      const db = watched(database().db);
      const outbox = on(db);
      const message = {
        topic: "order.created",
        payload: '{"n":1}',
        correlationId: "c-1",
        headers: { a: "b" },
      };
      const id = await outbox.enqueue(message);
      const claimed = await outbox.claim({ owner });

      expect(claimed).toMatchObject([
        { ...message, id, state: "InProgress", attempt: 0, createdAt: clock(), owner, afterCrash: false },
      ]);
      expect(db.calls).toEqual(["enqueue", "claim"]);
    });

    it("OBX-023 returns an empty list when nothing is ready", async () => {
      const { outbox, owner } = await box();
      expect(await outbox.claim({ owner })).toEqual([]);
      expect(await outbox.claim({ owner })).toEqual([]);
    });

    it("OBX-024 never claims what is done, however much time passes", async () => {
      const { outbox, owner, held, clock } = await box();
      await outbox.ack(owner, await held(2));
      clock.advance(365 * 86_400_000);
      expect(await outbox.claim({ owner })).toEqual([]);
    });

    it("OBX-025 never claims what has failed, however much time passes", async () => {
      const { outbox, owner, held, clock } = await box();
      await outbox.fail(owner, await held(2), "no");
      clock.advance(365 * 86_400_000);
      expect(await outbox.claim({ owner })).toEqual([]);
    });

    it("OBX-026 claims no more than batchSize: 50 unless told otherwise", async () => {
      const { outbox, owner } = await box();
      await outbox.enqueue(messages(120));
      const sizes: number[] = [];
      for (const batchSize of [1, 7, undefined, 1_000]) {
        sizes.push((await outbox.claim(batchSize === undefined ? { owner } : { owner, batchSize })).length);
      }
      expect(sizes).toEqual([1, 7, 50, 62]);
    });

    it("OBX-027 refuses a lease of no, negative or absurd length, and claims nothing", async () => {
      const { outbox, owner } = await box();
      await outbox.enqueue(messages(1));
      const wrong = [0, -1, Number.NaN, Number.POSITIVE_INFINITY, 400 * 86_400_000, "30", null];
      for (const leaseMs of wrong.filter((value) => value !== null)) {
        const call = async () => outbox.claim({ owner, leaseMs: leaseMs as number });
        await expect(call, String(leaseMs)).rejects.toBeInstanceOf(ArgumentRangeError);
        await expect(call).rejects.toThrow(/leaseMs/);
      }
      expect((await outbox.stats()).counts).toMatchObject({ Ready: 1, InProgress: 0 });
    });

    it("OBX-028 refuses a batch of no, negative, broken or absurd size, and claims nothing", async () => {
      const { outbox, owner } = await box();
      await outbox.enqueue(messages(1));
      for (const batchSize of [0, -1, 1.5, Number.NaN, 1_001, "10"]) {
        const call = async () => outbox.claim({ owner, batchSize: batchSize as number });
        await expect(call, String(batchSize)).rejects.toBeInstanceOf(ArgumentRangeError);
        await expect(call).rejects.toThrow(/batchSize/);
      }
      expect((await outbox.stats()).counts).toMatchObject({ Ready: 1, InProgress: 0 });
    });

    it("OBX-021 refuses an owner token that is empty or no GUID", async () => {
      const { outbox } = await box();
      const wrong = ["00000000-0000-0000-0000-000000000000", "", "worker-1", undefined, null, 7];
      for (const owner of wrong) {
        const call = async () => outbox.claim({ owner: owner as OwnerToken });
        await expect(call, String(owner)).rejects.toBeInstanceOf(InvalidArgumentError);
      }
      const call = async () => outbox.claim(undefined as unknown as ClaimOptions);
      await expect(call).rejects.toBeInstanceOf(InvalidArgumentError);
    });

    it("OBX-029 claims a message that was given back from its nextAttemptAt on and not before", async () => {
      const { outbox, owner, held, clock } = await box();
      const [message] = await held(1);
      await outbox.abandon(owner, [message!], { delayMs: 5_000 });
      expect((await stored(outbox, message!)).nextAttemptAt).toEqual(new Date(clock().getTime() + 5_000));

      clock.advance(4_999);
      expect(await outbox.claim({ owner })).toEqual([]);
      clock.advance(1);
      expect(idsOf(await outbox.claim({ owner }))).toEqual([message!.id]);
    });

    it("OBX-097 works with leases from 10 to 300 s, and from a millisecond to a year", async () => {
      const { outbox, owner, clock } = await box();
      for (const leaseMs of [10_000, 300_000, 1, 365 * 86_400_000]) {
        await outbox.enqueue({ topic: "t", payload: "" });
        const [claimed] = await outbox.claim({ owner, leaseMs });
        expect(claimed!.lockedUntil).toEqual(new Date(clock().getTime() + leaseMs));
        await outbox.ack(owner, [claimed!]);
      }
    });

    it("OBX-098 works with batches from 1 to 100, and up to 1,000", async () => {
      const { outbox, owner } = await box();
      for (const batchSize of [1, 100, 1_000]) {
        await outbox.enqueue(messages(batchSize));
        const claimed = await outbox.claim({ owner, batchSize });
        expect(claimed).toHaveLength(batchSize);
        expect((await outbox.ack(owner, claimed)).changed).toHaveLength(batchSize);
      }
    });
  });
}
