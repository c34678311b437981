import { expect, it } from "vitest";
import { InvalidArgumentError } from "../../errors.js";
import { newOwnerToken } from "../../queue/owner-token.js";
import type { SqlExecutor } from "../../sql/driver.js";
import type { ContractHarness } from "../harness.js";
import { type Box, hasOneConnection, idsOf, messages, outboxTheme, stored } from "./support.js";

/** A table of the user's own beside the outbox. */
const business = ({ names }: Box) => names.object("Orders");

export function transactionContract(harness: ContractHarness): void {
  outboxTheme(harness, "the caller's transaction", ({ database, box }) => {
    const withOrders = async (): Promise<Box> => {
      const made = await box();
      await database().raw(`create table ${business(made)} (id int not null)`);
      return made;
    };
    const orders = async (made: Box) => (await database().raw(`select id from ${business(made)}`)).length;

    it("OBX-003 the caller's commit makes the message claimable, together with the business row", async () => {
      const made = await withOrders();
      const caller = await database().begin();
      await caller.run(`insert into ${business(made)} (id) values (1)`);
      const id = await made.outbox.enqueue({ topic: "order.created", payload: "1" }, { tx: caller.tx });
      await caller.commit();

      expect(await orders(made)).toBe(1);
      expect(idsOf(await made.outbox.claim({ owner: made.owner }))).toEqual([id]);
    });

    it("OBX-003 the caller's rollback leaves neither message nor business row", async () => {
      const made = await withOrders();
      const caller = await database().begin();
      await caller.run(`insert into ${business(made)} (id) values (1)`);
      const id = await made.outbox.enqueue({ topic: "order.created", payload: "1" }, { tx: caller.tx });
      const batch = await made.outbox.enqueue(messages(3), { tx: caller.tx });
      await caller.rollback();

      expect(await orders(made)).toBe(0);
      expect(await made.outbox.claim({ owner: made.owner })).toEqual([]);
      for (const one of [id, ...batch]) expect(await made.outbox.get({ id: one })).toBeNull();
    });

    it("OBX-003 neither commits nor rolls back: what the caller writes after enqueue is in the same transaction", async () => {
      const made = await withOrders();
      const first = await database().begin();
      await made.outbox.enqueue({ topic: "t", payload: "" }, { tx: first.tx });
      await first.run(`insert into ${business(made)} (id) values (1)`);
      await first.rollback();
      expect(await orders(made)).toBe(0);

      const second = await database().begin();
      await made.outbox.enqueue({ topic: "t", payload: "" }, { tx: second.tx });
      await second.run(`insert into ${business(made)} (id) values (2)`);
      await second.commit();
      expect(await orders(made)).toBe(1);
      expect((await made.outbox.stats()).counts.Ready).toBe(1);
    });

    it("OBX-003 a batch goes in with the caller's commit, ids in order", async () => {
      const { outbox, owner } = await box();
      const caller = await database().begin();
      const ids = await outbox.enqueue(messages(100), { tx: caller.tx });
      await caller.commit();

      const claimed = await outbox.claim({ owner, batchSize: 100 });
      expect(idsOf(claimed)).toEqual([...ids].sort());
      expect((await stored(outbox, { id: ids[42]! })).payload).toBe("042");
    });

    it("OBX-003 due time, expiry, headers and correlation id hold in a transaction as without", async () => {
      const { outbox, owner, clock } = await box();
      const dueAt = new Date(clock().getTime() + 1_000);
      const expiresAt = new Date(clock().getTime() + 5_000);
      const caller = await database().begin();
      const message = {
        topic: "t",
        payload: "a\0b",
        dueAt,
        expiresAt,
        headers: { a: "b" },
        correlationId: "",
      };
      const id = await outbox.enqueue(message, { tx: caller.tx });
      await caller.commit();

      const expected = { createdAt: clock(), dueAt, expiresAt, headers: { a: "b" }, correlationId: null };
      expect(await stored(outbox, { id })).toMatchObject({ ...expected, payload: "a\0b", state: "Ready" });
      expect(await outbox.claim({ owner })).toEqual([]);
    });

    it("OBX-003 OBX-081 no one sees or claims the message before the commit", async () => {
      const { outbox, on, owner } = await box();
      const caller = await database().begin();
      const id = await outbox.enqueue({ topic: "t", payload: "" }, { tx: caller.tx });

      if (hasOneConnection(database())) {
        // the one connection is the caller's until it commits: others wait
        let answered = false;
        const waiting = outbox.claim({ owner }).finally(() => {
          answered = true;
        });
        for (let turn = 0; turn < 50; turn++) await Promise.resolve();
        expect(answered).toBe(false);
        await caller.rollback();
        expect(await waiting).toEqual([]);
        return;
      }
      const other = on(database().reopen());
      const dialect = database().db.dialect.name;
      // SQLite has one writer at a time, so a claim would wait there; a reader does not
      if (dialect !== "sqlite") expect(await other.claim({ owner: newOwnerToken() })).toEqual([]);
      // and on SQL Server without READ_COMMITTED_SNAPSHOT a reader waits for the writer
      if (dialect !== "sqlserver") {
        expect(await other.get({ id })).toBeNull();
        expect((await other.stats()).counts.Ready).toBe(0);
      }
      await caller.commit();
      expect(idsOf(await other.claim({ owner }))).toEqual([id]);
    });

    it("OBX-003 OBX-081 a transaction that began earlier and commits later is not missed", async () => {
      const { outbox, on, owner } = await box();
      if (database().db.dialect.name === "sqlite") {
        // one writer at a time: the later transaction can only come before or after the earlier one
        const before = await outbox.enqueue({ topic: "t", payload: "before" });
        await outbox.ack(owner, await outbox.claim({ owner }));
        const caller = await database().begin();
        const id = await outbox.enqueue({ topic: "t", payload: "slow" }, { tx: caller.tx });
        await caller.commit();
        expect(idsOf(await outbox.claim({ owner }))).toEqual([id]);
        expect((await stored(outbox, { id: before })).state).toBe("Done");
        return;
      }
      const slow = await database().begin();
      const early = await outbox.enqueue({ topic: "t", payload: "slow" }, { tx: slow.tx });
      const fast = on(database().reopen());
      const late = await fast.enqueue({ topic: "t", payload: "fast" });
      const claimed = await fast.claim({ owner });
      expect(idsOf(claimed)).toEqual([late]);
      await fast.ack(owner, claimed);
      await slow.commit();

      expect(idsOf(await fast.claim({ owner }))).toEqual([early]);
    });

    it("OBX-003 takes a transaction of the database's own driver: commit, and rollback by throwing", async () => {
      const { outbox, owner } = await box();
      const { driver } = database().db;
      const id = await driver.transaction((tx) => outbox.enqueue({ topic: "t", payload: "" }, { tx }));
      const failed = driver.transaction(async (tx) => {
        await outbox.enqueue(messages(2), { tx });
        throw new Error("the business says no");
      });
      await expect(failed).rejects.toThrow("the business says no");
      expect(idsOf(await outbox.claim({ owner }))).toEqual([id]);
    });

    it("OBX-003 a refused message leaves the caller's transaction as it was", async () => {
      const made = await withOrders();
      const caller = await database().begin();
      await caller.run(`insert into ${business(made)} (id) values (1)`);
      const refused = made.outbox.enqueue({ topic: "", payload: "" }, { tx: caller.tx });
      await expect(refused).rejects.toBeInstanceOf(InvalidArgumentError);
      const id = await made.outbox.enqueue({ topic: "t", payload: "" }, { tx: caller.tx });
      await caller.commit();

      expect(await orders(made)).toBe(1);
      expect(idsOf(await made.outbox.claim({ owner: made.owner }))).toEqual([id]);
    });

    it("OBX-003 an aborted signal refuses the enqueue and leaves the caller's transaction as it was", async () => {
      const made = await withOrders();
      const caller = await database().begin();
      await caller.run(`insert into ${business(made)} (id) values (1)`);
      const reason = new Error("the host is shutting down");
      const call = { tx: caller.tx, signal: AbortSignal.abort(reason) };
      await expect(made.outbox.enqueue({ topic: "t", payload: "" }, call)).rejects.toBe(reason);
      await caller.commit();

      expect(await orders(made)).toBe(1);
      expect((await made.outbox.list()).messages).toEqual([]);
    });

    it("OBX-030 OBX-080 an ack in the caller's transaction counts with the commit and not without", async () => {
      const { outbox, owner, held } = await box();
      const [first, second] = await held(2);
      const kept = await database().begin();
      expect(idsOf((await outbox.ack(owner, [first!], { tx: kept.tx })).changed)).toEqual([first!.id]);
      await kept.commit();
      const undone = await database().begin();
      expect(idsOf((await outbox.ack(owner, [second!], { tx: undone.tx })).changed)).toEqual([second!.id]);
      await undone.rollback();

      expect((await stored(outbox, first!)).state).toBe("Done");
      expect(await stored(outbox, second!)).toEqual(second);
    });

    it("OBX-030 OBX-080 handling, ack and follow-up message commit together, by plain id too", async () => {
      const { outbox, owner, held } = await box();
      const [first, second] = await held(2);
      const followUp = await outbox.transaction(async (tx) => {
        expect((await outbox.ack(owner, [{ id: first!.id }], { tx })).lost).toEqual([]);
        return outbox.enqueue({ topic: "follow.up", payload: "" }, { tx });
      });
      const failed = outbox.transaction(async (tx) => {
        await outbox.ack(owner, [second!], { tx });
        await outbox.enqueue({ topic: "follow.up", payload: "" }, { tx });
        throw new Error("the business says no");
      });
      await expect(failed).rejects.toThrow("the business says no");

      expect((await stored(outbox, first!)).state).toBe("Done");
      expect(await stored(outbox, second!)).toEqual(second);
      expect(idsOf(await outbox.claim({ owner }))).toEqual([followUp]);
    });

    it("OBX-033 in a transaction too, a foreign owner acks nothing", async () => {
      const { outbox, held } = await box();
      const [message] = await held(1);
      const caller = await database().begin();
      const result = await outbox.ack(newOwnerToken(), [message!], { tx: caller.tx });
      await caller.commit();
      expect(result.changed).toEqual([]);
      expect(await stored(outbox, message!)).toEqual(message);
    });

    it("OBX-003 OBX-080 a transaction in which a statement failed commits nothing quietly: it rejects, or all of it is there", async () => {
      const { outbox } = await box();
      let id = "";
      const outcome = await outbox
        .transaction(async (tx) => {
          id = await outbox.enqueue({ topic: "t", payload: "p" }, { tx });
          await tx
            .query({ name: "broken", text: "select * from no_such_table", unprepared: true }, {})
            .catch(() => {});
        })
        .then(
          () => "committed",
          () => "rolled back",
        );
      expect((await outbox.get({ id })) === null).toBe(outcome === "rolled back");
    });

    it("OBX-003 a transaction that has ended takes nothing more", async () => {
      const { outbox } = await box();
      let late: SqlExecutor | undefined;
      await outbox.transaction(async (tx) => {
        late = tx;
      });
      await expect(outbox.enqueue({ topic: "t", payload: "" }, { tx: late })).rejects.toThrow(/ended/i);
      const failed = outbox.transaction(async (tx) => {
        late = tx;
        throw new Error("the business says no");
      });
      await expect(failed).rejects.toThrow("the business says no");
      await expect(outbox.enqueue({ topic: "t", payload: "" }, { tx: late })).rejects.toThrow(/ended/i);
      expect((await outbox.list()).messages).toEqual([]);
    });

    it("what was started inside of a transaction may use the store after it", async () => {
      const { outbox } = await box();
      let ended = (): void => {};
      const end = new Promise<void>((resolve) => {
        ended = resolve;
      });
      let afterwards: Promise<unknown> | undefined;
      await outbox.transaction(async () => {
        afterwards = end.then(() => outbox.stats());
      });
      ended();
      expect(await afterwards).toMatchObject({ due: 0 });
    });

    it("a closed database refuses calls, after what was under way has ended", async () => {
      const { on } = await box();
      const db = database().reopen();
      if (db === database().db) return; // in memory, the one connection is everybody's
      const outbox = on(db);
      const under = outbox.enqueue({ topic: "t", payload: "" });
      await db.driver.query({ name: "opened", text: "select 1 as one" }, {});
      await under;
      await db.close();
      await expect(outbox.stats()).rejects.toThrow(/closed/i);
      await db.close();
    });
  });
}
