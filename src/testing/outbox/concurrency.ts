import { expect, it } from "vitest";
import type { Outbox } from "../../outbox/outbox.js";
import { newOwnerToken } from "../../queue/owner-token.js";
import type { ContractHarness, TestDatabase } from "../harness.js";
import {
  brokenConnection,
  claimAll,
  deadlock,
  idsOf,
  messages,
  outboxTheme,
  stored,
  watched,
} from "./support.js";

/** Makes the database itself refuse a row, as a full disk or a violated constraint would. */
async function forbid(
  database: TestDatabase,
  table: string,
  trigger: string,
  event: string,
  rule: string,
): Promise<void> {
  if (database.db.dialect.name === "sqlite") {
    const refuse = `begin select raise(abort, 'forbidden by the test'); end`;
    await database.raw(
      `create trigger ${trigger} before ${event} on ${table} when not (new.${rule}) ${refuse}`,
    );
  } else {
    await database.raw(`alter table ${table} add check (${rule})`);
  }
}

export function concurrencyContract(harness: ContractHarness): void {
  outboxTheme(harness, "concurrency and consistency", ({ database, box }) => {
    it("OBX-080 a batch is enqueued whole or not at all", async () => {
      const { outbox, names } = await box();
      await forbid(database(), names.message, names.object("Forbidden"), "insert", "topic <> 'forbidden'");
      const batch = [...messages(3), { topic: "forbidden", payload: "" }, ...messages(3)];
      await expect(outbox.enqueue(batch)).rejects.toThrow();

      expect((await outbox.list()).messages).toEqual([]);
      const [row] = await database().raw(`select count(*) as n from ${names.state}`);
      expect(Number(row!.n)).toBe(0);
      expect(await outbox.enqueue(messages(3))).toHaveLength(3);
    });

    it("OBX-080 message and state are written together or not at all", async () => {
      const { outbox, names, clock } = await box();
      await forbid(database(), names.state, names.object("Forbidden"), "insert", "attempt <> 0");
      // with a due time: on SQLite a message that is simply due has no state row yet
      const dueAt = clock();
      await expect(outbox.enqueue({ topic: "t", payload: "", dueAt })).rejects.toThrow();
      await expect(outbox.enqueue(messages(2).map((one) => ({ ...one, dueAt })))).rejects.toThrow();

      for (const table of [names.message, names.state]) {
        const [row] = await database().raw(`select count(*) as n from ${table}`);
        expect(Number(row!.n)).toBe(0);
      }
    });

    it("OBX-080 a batch is settled whole or not at all", async () => {
      const { outbox, owner, names, held, clock } = await box();
      const [old] = await held(1);
      await outbox.abandon(owner, [old!]);
      clock.advance(10_000);
      await outbox.enqueue(messages(2));
      const claimed = await outbox.claim({ owner });
      expect(claimed).toHaveLength(3);
      await forbid(database(), names.state, names.object("Forbidden"), "update", "attempt < 2");
      await expect(outbox.abandon(owner, claimed)).rejects.toThrow();

      for (const message of claimed) expect(await stored(outbox, message)).toEqual(message);
      expect((await outbox.ack(owner, claimed)).changed).toHaveLength(3);
    });

    it("OBX-081 two claims that overlap in time never see the same row as free", async () => {
      const { outbox, on } = await box();
      await outbox.enqueue(messages(100));
      const claimers = Array.from({ length: 10 }, () => on(database().reopen()));
      const batches = await Promise.all(
        claimers.map((one) => one.claim({ owner: newOwnerToken(), batchSize: 20 })),
      );
      const ids = batches.flat().map((message) => message.id);

      expect(new Set(ids).size).toBe(ids.length);
      const rest = await claimAll(outbox, newOwnerToken());
      expect(new Set([...ids, ...idsOf(rest)]).size).toBe(100);
    });

    it("OBX-082 IBX-104 an enqueue in its own transaction is repeated after a deadlock, and is there once", async () => {
      const { on, outbox, log } = await box();
      const { db } = database();
      for (const batch of [[messages(1)[0]!], messages(3)]) {
        const faulty = watched(db, [{ fail: deadlock(db) }, { fail: deadlock(db) }]);
        const ids = await on(faulty).enqueue(batch);
        expect(faulty.calls).toHaveLength(3);
        for (const id of ids) expect((await stored(outbox, { id })).state).toBe("Ready");
      }
      expect((await outbox.stats()).counts.Ready).toBe(4);
      expect(
        log.filter((line) => line.level === "warn" && line.message === "database fault, trying again"),
      ).toHaveLength(4);
    });

    it("OBX-082 IBX-104 an enqueue that was committed but whose answer was lost is there once", async () => {
      const { on, outbox, owner } = await box();
      const { db } = database();
      const single = watched(db, [{ loseAnswer: brokenConnection(db) }]);
      const id = await on(single).enqueue({ topic: "t", payload: "" });
      const many = watched(db, [{ loseAnswer: brokenConnection(db) }]);
      const ids = await on(many).enqueue(messages(3));

      expect([single.calls, many.calls]).toEqual([
        ["enqueue", "enqueue"],
        ["enqueue many", "enqueue many"],
      ]);
      expect(idsOf(await outbox.claim({ owner }))).toEqual([id, ...ids].sort());
      expect((await outbox.list()).messages).toHaveLength(4);
    });

    it("OBX-082 IBX-104 an enqueue in the caller's transaction is not repeated: the fault is the caller's to answer", async () => {
      const { outbox } = await box();
      const fault = deadlock(database().db);
      let calls = 0;
      const tx = {
        query: async () => {
          calls++;
          throw fault;
        },
      };
      await expect(outbox.enqueue({ topic: "t", payload: "" }, { tx })).rejects.toBe(fault);
      await expect(outbox.enqueue(messages(2), { tx })).rejects.toBe(fault);
      expect(calls).toBe(2);
    });

    it("OBX-082 IBX-104 claim and ack are repeated after a deadlock", async () => {
      const { on, outbox, owner } = await box();
      const { db } = database();
      await outbox.enqueue(messages(2));
      const claiming = watched(db, [{ fail: deadlock(db) }]);
      const claimed = await on(claiming).claim({ owner });
      expect(claimed).toHaveLength(2);
      const acking = watched(db, [{ fail: deadlock(db) }]);
      expect((await on(acking).ack(owner, claimed)).changed).toHaveLength(2);

      expect([claiming.calls, acking.calls]).toEqual([
        ["claim", "claim"],
        ["ack", "ack"],
      ]);
      expect((await outbox.stats()).counts.Done).toBe(2);
    });

    it("OBX-082 IBX-104 a settlement whose answer was lost is repeated and counts once", async () => {
      const { on, outbox, owner, held } = await box();
      const { db } = database();
      const [acked, abandoned, failed] = await held(3);
      const lost = () => on(watched(db, [{ loseAnswer: brokenConnection(db) }]));
      await lost().ack(owner, [acked!]);
      await lost().abandon(owner, [abandoned!], { error: "503" });
      await lost().fail(owner, [failed!], "410");

      expect(await stored(outbox, acked!)).toMatchObject({ state: "Done", attempt: 0 });
      expect(await stored(outbox, abandoned!)).toMatchObject({
        state: "Ready",
        attempt: 1,
        lastError: "503",
      });
      expect(await stored(outbox, failed!)).toMatchObject({ state: "Failed", attempt: 1, lastError: "410" });
    });

    it("OBX-082 IBX-104 messages whose claim's answer was lost come back after the lease", async () => {
      const { on, outbox, owner, clock } = await box();
      const { db } = database();
      const ids = await outbox.enqueue(messages(2));
      const faulty = watched(db, [{ loseAnswer: brokenConnection(db) }]);
      const claimed = await on(faulty).claim({ owner });
      await outbox.ack(owner, claimed);
      clock.advance(60_000);
      const later = await claimAll(outbox, newOwnerToken());
      expect(idsOf([...claimed, ...later])).toEqual([...ids].sort());
    });

    it("OBX-082 IBX-104 a fault that does not pass, or will not, reaches the caller as it is", async () => {
      const { on } = await box();
      const { db } = database();
      const fault = deadlock(db);
      const always = watched(
        db,
        Array.from({ length: 20 }, () => ({ fail: fault })),
      );
      await expect(on(always).stats()).rejects.toBe(fault);
      expect(always.calls.length).toBeGreaterThan(2);

      const permanent = Object.assign(new Error("disk full"), { code: "XX000" });
      const once = watched(db, [{ fail: permanent }]);
      await expect(on(once).enqueue({ topic: "t", payload: "" })).rejects.toBe(permanent);
      expect(once.calls).toEqual(["enqueue"]);
    });

    it("OBX-083 OBX-084 eight processes over 5,000 messages: each message is claimed once and acked once", async () => {
      const { on, outbox, names } = await box();
      for (let n = 0; n < 5; n++) await outbox.enqueue(messages(1_000));
      const seen: string[] = [];
      const acked: string[] = [];
      const work = async (one: Outbox) => {
        const owner = newOwnerToken();
        for (;;) {
          const claimed = await one.claim({ owner, batchSize: 100, leaseMs: 300_000 });
          if (claimed.length === 0) return;
          seen.push(...claimed.map((message) => message.id));
          acked.push(...(await one.ack(owner, claimed)).changed.map((message) => message.id));
        }
      };
      await Promise.all(Array.from({ length: 8 }, () => work(on(database().reopen()))));

      expect(seen).toHaveLength(5_000);
      expect(new Set(seen).size).toBe(5_000);
      expect(new Set(acked).size).toBe(5_000);
      expect((await outbox.stats()).counts).toEqual({ Ready: 0, InProgress: 0, Done: 5_000, Failed: 0 });
      const [row] = await database().raw(`select count(*) as n from ${names.state} where attempt > 0`);
      expect(Number(row!.n)).toBe(0);
    });

    it("OBX-083 enqueue, claim, abandon, release and reap may all run at once: nothing is lost, nothing is doubled", async () => {
      const { on, outbox } = await box({
        retry: { baseMs: 1, maxMs: 1, maxAttempts: 1_000 },
        realTime: true,
      });
      const done = new Map<string, number>();
      const ids: string[] = [];
      const produce = async (one: Outbox) => {
        for (let n = 0; n < 20; n++) ids.push(...(await one.enqueue(messages(5))));
      };
      let producing = true;
      const consume = async (one: Outbox, index: number) => {
        const owner = newOwnerToken();
        for (let round = 0; ; round++) {
          const claimed = await one.claim({ owner, batchSize: 7, leaseMs: 300_000 });
          if (claimed.length === 0 && !producing && (await one.stats()).counts.Ready === 0) return;
          const [first, second, ...rest] = claimed;
          if (first !== undefined && round % 3 === index % 3)
            await one.abandon(owner, [first], { delayMs: 1 });
          else if (first !== undefined) rest.push(first);
          if (second !== undefined && round % 4 === 0) await one.release(owner, [second]);
          else if (second !== undefined) rest.push(second);
          for (const { id } of (await one.ack(owner, rest)).changed) done.set(id, (done.get(id) ?? 0) + 1);
          if (round % 5 === 0) await one.reapExpired();
        }
      };
      const producers = [1, 2].map(() => produce(on(database().reopen())));
      const consumers = [0, 1, 2, 3].map((index) => consume(on(database().reopen()), index));
      await Promise.all(producers);
      producing = false;
      await Promise.all(consumers);

      expect(done.size).toBe(200);
      expect([...done.values()].every((times) => times === 1)).toBe(true);
      expect([...done.keys()].sort()).toEqual([...ids].sort());
      expect((await outbox.stats()).counts.Done).toBe(200);
    });

    it("OBX-084 a message whose lease was lost is its new owner's alone", async () => {
      const { outbox, owner, held, clock } = await box();
      const [message] = await held(1);
      clock.advance(60_000);
      const heir = newOwnerToken();
      const claims = await Promise.all([
        outbox.claim({ owner: heir }),
        outbox.claim({ owner: newOwnerToken() }),
      ]);
      expect(claims.flat()).toHaveLength(1);
      expect((await outbox.ack(owner, [message!])).changed).toEqual([]);
    });

    it("OBX-099 one worker drains thousands of messages at two round trips for each hundred", async () => {
      const { on, owner } = await box({ realTime: true });
      const db = watched(database().db);
      const outbox = on(db);
      for (let n = 0; n < 4; n++) await outbox.enqueue(messages(1_000));
      db.calls.length = 0;
      let drained = 0;
      for (;;) {
        const claimed = await outbox.claim({ owner, batchSize: 100 });
        if (claimed.length === 0) break;
        drained += (await outbox.ack(owner, claimed)).changed.length;
      }
      expect(drained).toBe(4_000);
      expect(db.calls).toHaveLength(81); // 40 claims and acks, and the claim that finds nothing
    });

    it("OBX-101 claim, ack, abandon, fail, release, renew and reap are one round trip each (a stored procedure on SQL Server, a single statement on PostgreSQL and SQLite)", async () => {
      const { on, outbox, owner, clock } = await box();
      await outbox.enqueue(messages(60));
      const db = watched(database().db);
      const counted = on(db);
      const claimed = await counted.claim({ owner, batchSize: 50 });
      await counted.renew(owner, claimed, 30_000);
      await counted.ack(owner, claimed.slice(0, 10));
      await counted.abandon(owner, claimed.slice(10, 20), { error: "503" });
      await counted.fail(owner, claimed.slice(20, 30), "410");
      await counted.release(owner, claimed.slice(30, 40));
      clock.advance(60_000);
      await counted.reapExpired();

      expect(db.calls).toEqual(["claim", "renew", "ack", "abandon", "fail", "release", "reap"]);
    });
  });
}
