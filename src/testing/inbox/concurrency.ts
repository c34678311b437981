import { describe, expect, it } from "vitest";
import type { Inbox } from "../../inbox/inbox.js";
import type { InboxMessage } from "../../queue/message.js";
import { newOwnerToken } from "../../queue/owner-token.js";
import type { SqlRow } from "../../sql/driver.js";
import type { TestDatabase } from "../harness.js";
import {
  claimAll,
  type InboxContext,
  inTransaction,
  isBabelfish,
  keysOf,
  rowCount,
  stored,
  watched,
} from "./support.js";

/** Makes the database itself refuse a row, as a full disk or a violated constraint would. */
async function forbid(
  database: TestDatabase,
  on: { table: string; trigger: string; event: "insert" | "update"; rule: string },
): Promise<void> {
  if (database.db.dialect.name === "sqlite") {
    const refuse = "begin select raise(abort, 'forbidden by the test'); end";
    await database.raw(
      `create trigger ${on.trigger} before ${on.event} on ${on.table} when not (new.${on.rule}) ${refuse}`,
    );
  } else {
    await database.raw(`alter table ${on.table} add check (${on.rule})`);
  }
}

interface IndexInfo {
  readonly columns: string;
  readonly unique: boolean;
  readonly filter: string;
}

/** The indexes of a table as the database's own catalogue tells them; SQL Server's without their columns. */
async function indexesOf(database: TestDatabase, schema: string, table: string): Promise<IndexInfo[]> {
  const text = (value: unknown) => String(value ?? "");
  const described = (row: SqlRow): IndexInfo => ({
    columns: text(row.columns),
    unique: Number(row.is_unique) === 1,
    filter: text(row.filter),
  });
  switch (database.db.dialect.name) {
    case "postgres": {
      const rows = await database.raw(
        `select indexdef from pg_indexes where schemaname = '${schema}' and tablename = '${table}'`,
      );
      return rows.map((row) => {
        const [, columns, filter] = /\((.*?)\)(?: WHERE (.*))?$/.exec(text(row.indexdef)) ?? [];
        return {
          columns: text(columns).replaceAll(" ", ""),
          unique: text(row.indexdef).startsWith("CREATE UNIQUE"),
          filter: text(filter),
        };
      });
    }
    case "sqlite": {
      const rows = await database.raw(
        `select (select group_concat(c.name) from (select name from pragma_index_info(i.name) order by seqno) c) as columns,
          i."unique" as is_unique, m.sql as filter
        from pragma_index_list('${table}') i left join sqlite_master m on m.type = 'index' and m.name = i.name`,
      );
      return rows.map(described);
    }
    case "sqlserver": {
      const rows = await database.raw(
        `select '' as columns, cast(i.is_unique as int) as is_unique, '' as filter
        from sys.indexes i
        join sys.tables t on t.object_id = i.object_id
        join sys.schemas s on s.schema_id = t.schema_id
        where s.name = '${schema}' and t.name = '${table}' and i.index_id > 0`,
      );
      return rows.map(described);
    }
  }
}

const bareName = (quoted: string): string =>
  quoted
    .split(".")
    .at(-1)!
    .replaceAll(/["[\]]/g, "");

export function concurrencyTests(context: InboxContext): void {
  const { database, freshInbox, message, messages } = context;

  describe("concurrency, consistency and schema", () => {
    it("IBX-014 a hundred concurrent deliveries of one message: one enqueued, ninety-nine duplicates, one row", async () => {
      const { inbox, on, names, owner } = await freshInbox();
      const inboxes = [inbox, ...Array.from({ length: 3 }, () => on(database().reopen()))];
      const incoming = message();
      const outcomes = await Promise.all(
        Array.from({ length: 100 }, (_, n) => inboxes[n % inboxes.length]!.receive(incoming)),
      );
      expect(outcomes.filter((one) => one === "enqueued")).toHaveLength(1);
      expect(outcomes.filter((one) => one === "duplicate")).toHaveLength(99);
      expect(await rowCount(database(), names.message)).toBe(1);
      expect((await stored(inbox, incoming)).deliveries).toBe(100);
      expect(await claimAll(inbox, owner)).toHaveLength(1);
      expect(await rowCount(database(), names.view)).toBe(1);
    });

    it("IBX-014 concurrent batches with the same messages in different orders: each is enqueued once", async () => {
      const { inbox, on } = await freshInbox();
      const inboxes = [inbox, ...Array.from({ length: 3 }, () => on(database().reopen()))];
      const batch = messages(50);
      const orders = [batch, [...batch].reverse(), [...batch.slice(25), ...batch.slice(0, 25)], batch];
      const outcomes = await Promise.all(
        Array.from({ length: 8 }, (_, n) => inboxes[n % inboxes.length]!.enqueue(orders[n % orders.length]!)),
      );
      const all = outcomes.flat();
      expect(all.filter((one) => one === "enqueued")).toHaveLength(50);
      expect(all.filter((one) => one === "duplicate")).toHaveLength(350);
      expect((await inbox.stats()).counts.Processing).toBe(50);
    });

    it("IBX-014 concurrent deliveries of a Seen message enqueue it once", async () => {
      const { inbox, on, owner } = await freshInbox();
      const other = on(database().reopen());
      const incoming = message();
      await inbox.alreadyProcessed(incoming);
      const outcomes = await Promise.all(
        Array.from({ length: 20 }, (_, n) => (n % 2 ? inbox : other).receive(incoming)),
      );
      expect(outcomes.filter((one) => one === "enqueued")).toHaveLength(1);
      expect(outcomes.filter((one) => one === "duplicate")).toHaveLength(19);
      expect(await claimAll(inbox, owner)).toHaveLength(1);
    });

    it("IBX-030 IBX-106 claims at the same moment share the messages out without overlap", async () => {
      const { inbox, on } = await freshInbox();
      const all = messages(100);
      await inbox.enqueue(all);
      const claimers = Array.from({ length: 10 }, () => on(database().reopen()));
      const batches = await Promise.all(
        claimers.map((one) => one.claim({ owner: newOwnerToken(), batchSize: 20 })),
      );
      const first = batches.flat();
      const rest = await claimAll(inbox, newOwnerToken());
      expect(keysOf([...first, ...rest])).toEqual(keysOf(all));
      for (const batch of batches) {
        expect(batch.length).toBeLessThanOrEqual(20);
        expect(new Set(batch.map((one) => one.owner)).size).toBeLessThanOrEqual(1);
      }
    });

    it("IBX-030 a claim steps over a row that another transaction has locked instead of waiting for it", async ({
      skip,
    }) => {
      const { dialect } = database().db;
      if (dialect.name === "sqlite") skip("SQLite has one writer at a time, and no row locks");
      if (await isBabelfish(database())) skip("Babelfish ignores lock hints");
      const { inbox, names, owner } = await freshInbox();
      const all = messages(5);
      await inbox.enqueue(all);
      const { seq } = await stored(inbox, all[0]!);
      const transaction = await database().begin();
      try {
        await transaction.run(`update ${names.state} set attempt = attempt where seq = ${seq}`);
        expect(keysOf(await inbox.claim({ owner }))).toEqual(keysOf(all.slice(1)));
      } finally {
        await transaction.rollback();
      }
      expect(keysOf(await inbox.claim({ owner }))).toEqual(keysOf(all.slice(0, 1)));
    });

    it("IBX-102 a batch is enqueued whole or not at all", async () => {
      const { inbox, names } = await freshInbox();
      await forbid(database(), {
        table: names.message,
        trigger: names.object("Forbidden"),
        event: "insert",
        rule: "topic <> 'forbidden'",
      });
      const batch = [...messages(3), message({ topic: "forbidden" }), ...messages(3)];
      await expect(inbox.enqueue(batch)).rejects.toThrow();
      expect(await rowCount(database(), names.message)).toBe(0);
      expect(await rowCount(database(), names.state)).toBe(0);
      expect(await inbox.enqueue(messages(3))).toEqual(["enqueued", "enqueued", "enqueued"]);
    });

    it("IBX-102 a batch with a key that comes twice is enqueued whole or not at all", async () => {
      const { inbox, names } = await freshInbox();
      await forbid(database(), {
        table: names.message,
        trigger: names.object("Forbidden"),
        event: "insert",
        rule: "topic <> 'forbidden'",
      });
      const twice = message();
      await expect(inbox.enqueue([message(), twice, { ...twice, topic: "forbidden" }])).rejects.toThrow();
      expect(await rowCount(database(), names.message)).toBe(0);
      expect(await rowCount(database(), names.state)).toBe(0);
    });

    it("IBX-102 a message and its state are written together or not at all", async () => {
      const { inbox, names, clock } = await freshInbox();
      await forbid(database(), {
        table: names.state,
        trigger: names.object("Forbidden"),
        event: "insert",
        rule: "attempt <> 0",
      });
      // with a due time: on SQLite a message that is simply due has no state row yet
      await expect(inbox.receive(message({ dueAt: clock() }))).rejects.toThrow();
      await expect(inbox.enqueue(messages(2, { dueAt: clock() }))).rejects.toThrow();
      await expect(inbox.alreadyProcessed(message())).rejects.toThrow();
      await expect(inbox.markProcessed(message())).rejects.toThrow();
      expect(await rowCount(database(), names.message)).toBe(0);
      expect(await rowCount(database(), names.state)).toBe(0);
    });

    it("IBX-102 a batch is claimed whole or not at all", async () => {
      const { inbox, names, owner, clock } = await freshInbox();
      await inbox.enqueue(messages(3, { dueAt: clock() }));
      const last = message({ dueAt: clock() });
      await inbox.receive(last);
      const { seq } = await stored(inbox, last);
      await forbid(database(), {
        table: names.state,
        trigger: names.object("Forbidden"),
        event: "update",
        rule: `seq <> ${seq} or owner is null`.replace(
          "owner",
          database().db.dialect.name === "sqlite" ? "new.owner" : "owner",
        ),
      });
      await expect(inbox.claim({ owner })).rejects.toThrow();
      expect((await inbox.stats()).due).toBe(4);
      expect(await inbox.claim({ owner, batchSize: 3 })).toHaveLength(3);
    });

    it("IBX-103 a claim does not see what another transaction has not committed", async () => {
      const { inbox, on, owner } = await freshInbox();
      const committed = message();
      const ghost = message();
      await inbox.receive(committed);
      // On SQLite a claim would wait for the writer; there the look comes after the end of it.
      const waits = database().db.dialect.name === "sqlite";
      const first = await database().begin();
      expect(await on(inTransaction(database().db, first.tx)).receive(ghost)).toBe("enqueued");
      if (!waits) expect(keysOf(await inbox.claim({ owner }))).toEqual(keysOf([committed]));
      await first.rollback();
      if (waits) expect(keysOf(await inbox.claim({ owner }))).toEqual(keysOf([committed]));
      expect(await inbox.claim({ owner })).toEqual([]);
      expect(await inbox.get(ghost)).toBeNull();

      const second = await database().begin();
      await on(inTransaction(database().db, second.tx)).receive(ghost);
      await second.commit();
      expect(keysOf(await inbox.claim({ owner }))).toEqual(keysOf([ghost]));
    });

    it("IBX-103 a claim that is rolled back leaves the messages for others", async () => {
      const { inbox, on, owner } = await freshInbox();
      const all = messages(3);
      await inbox.enqueue(all);
      const transaction = await database().begin();
      const inside = on(inTransaction(database().db, transaction.tx));
      expect(await inside.claim({ owner: newOwnerToken() })).toHaveLength(3);
      await transaction.rollback();
      const claimed = await inbox.claim({ owner });
      expect(keysOf(claimed)).toEqual(keysOf(all));
      for (const one of claimed) expect(one).toMatchObject({ attempt: 0, owner });
    });

    it("IBX-105 IBX-106 IBX-121 eight processes over 5,000 messages: each message is claimed once and acknowledged once", async () => {
      const { inbox, on, names } = await freshInbox();
      for (let n = 0; n < 5; n++) await inbox.enqueue(messages(1_000));
      const claimed: InboxMessage[] = [];
      let acked = 0;
      const work = async (one: Inbox) => {
        const owner = newOwnerToken();
        for (;;) {
          const batch = await one.claim({ owner, batchSize: 100, leaseMs: 300_000 });
          if (batch.length === 0) return;
          expect(batch.every((each) => each.owner === owner)).toBe(true);
          claimed.push(...batch);
          const { changed } = await one.ack(owner, batch);
          acked += changed.length;
        }
      };
      await Promise.all(Array.from({ length: 8 }, () => work(on(database().reopen()))));

      expect(claimed).toHaveLength(5_000);
      expect(new Set(keysOf(claimed)).size).toBe(5_000);
      expect(acked).toBe(5_000);
      expect((await inbox.stats()).counts).toEqual({ Seen: 0, Processing: 0, Done: 5_000, Dead: 0 });
      expect(await rowCount(database(), `${names.state} where attempt > 0`)).toBe(0);
    });

    it("IBX-105 receivers and workers may all run at once: nothing is lost, nothing is doubled", async () => {
      const { on, inbox } = await freshInbox({ realTime: true });
      const all = messages(300);
      const handled: string[] = [];
      let producing = true;
      const produce = async (one: Inbox) => {
        for (let n = 0; n < all.length; n += 10) await one.enqueue(all.slice(n, n + 10));
      };
      const consume = async (one: Inbox) => {
        const owner = newOwnerToken();
        for (;;) {
          const last = !producing;
          const batch = await one.claim({ owner, batchSize: 7, leaseMs: 300_000 });
          const [back, ...rest] = batch;
          if (batch.length === 0 && last) return;
          // a worker that is told to stop hands back what it has not begun
          const kept = batch.length === 7 ? rest : batch;
          if (back !== undefined && batch.length === 7) await one.release(owner, [back]);
          const { changed } = await one.ack(owner, kept);
          handled.push(...keysOf(changed));
        }
      };
      const producers = [1, 2].map(() => produce(on(database().reopen())));
      const consumers = [1, 2, 3].map(() => consume(on(database().reopen())));
      await Promise.all(producers);
      producing = false;
      await Promise.all(consumers);

      const left = await claimAll(inbox, newOwnerToken());
      expect([...handled, ...keysOf(left)].sort()).toEqual(keysOf(all));
    });

    it("IBX-106 a worker that lost its lease cannot settle what another holds now", async () => {
      const { inbox, clock, owner } = await freshInbox();
      await inbox.receive(message());
      const [lost] = await inbox.claim({ owner, leaseMs: 10_000 });
      clock.advance(60_000);
      const heir = newOwnerToken();
      const claims = await Promise.all([
        inbox.claim({ owner: heir }),
        inbox.claim({ owner: heir }),
        inbox.claim({ owner: heir }),
      ]);
      expect(claims.flat()).toHaveLength(1);
      expect(await inbox.ack(owner, [lost!])).toEqual({ changed: [], lost: [lost], dead: [] });
      expect(await stored(inbox, lost!)).toMatchObject({ state: "Processing", owner: heir });
    });

    it("IBX-121 one worker drains thousands of messages at two round trips for each hundred", async () => {
      const { on, owner } = await freshInbox({ realTime: true });
      const db = watched(database().db);
      const inbox = on(db);
      for (let n = 0; n < 4; n++) await inbox.enqueue(messages(1_000));
      db.calls.length = 0;
      let drained = 0;
      for (;;) {
        const claimed = await inbox.claim({ owner, batchSize: 100 });
        if (claimed.length === 0) break;
        drained += (await inbox.ack(owner, claimed)).changed.length;
      }
      expect(drained).toBe(4_000);
      expect(db.calls).toHaveLength(81); // 40 claims and acks, and the claim that finds nothing
    });

    it("IBX-121 a burst of deliveries is received each for itself, and shares round trips to a server", async () => {
      const { on, names, owner } = await freshInbox({ realTime: true });
      const db = watched(database().db);
      const inbox = on(db);
      const burst = messages(100);
      const twice = burst.slice(0, 50).map((one) => ({ ...one }));
      const other = { ...burst[99]!, payload: "other", hash: new Uint8Array([2]) };
      await inbox.receive({ ...burst[99]!, hash: new Uint8Array([1]) });
      db.calls.length = 0;
      const outcomes = await Promise.all(
        [...burst.slice(0, 99), other, ...twice].map((one) => inbox.receive(one)),
      );
      expect(outcomes.filter((outcome) => outcome === "enqueued")).toHaveLength(99);
      expect(outcomes.filter((outcome) => outcome === "duplicate")).toHaveLength(50);
      expect(outcomes[99]).toBe("conflict");
      for (let n = 0; n < 50; n++)
        expect([outcomes[n], outcomes[100 + n]].sort()).toEqual(["duplicate", "enqueued"]);
      if (db.dialect.embedded) expect(db.calls).toHaveLength(150);
      else expect(db.calls.length).toBeLessThan(50);
      expect(await rowCount(database(), names.message)).toBe(100);
      const claimed = await claimAll(inbox, owner);
      expect(claimed.map((one) => one.payload).sort()).toEqual(
        [...burst.slice(0, 99), other].map((one) => one.payload).sort(),
      );
    });

    it("IBX-104 deliveries that wait for a locked message keep no others back once they are given up", async () => {
      const { inbox } = await freshInbox({ realTime: true });
      if (database().db.dialect.embedded) return; // one writer at a time: there every delivery goes for itself
      const locked = messages(8);
      const other = await database().begin();
      try {
        await inbox.enqueue(locked, { tx: other.tx });
        const giveUp = Array.from({ length: 8 }, () => new AbortController());
        const receive = (one: (typeof locked)[number], n: number) =>
          inbox.receive(one, { signal: giveUp[n]!.signal });
        const alone = locked.slice(0, 4).map(receive);
        const groups: Promise<unknown>[] = [];
        for (let n = 0; n < 4; n++) {
          groups.push(receive(locked[4 + n]!, 4 + n), receive(message(), 4 + n));
          giveUp[n]!.abort(new Error("gave up"));
          await expect(alone[n]).rejects.toThrow("gave up");
        }
        for (const one of giveUp.slice(4)) one.abort(new Error("gave up"));
        for (const one of await Promise.allSettled(groups)) expect(one.status).toBe("rejected");
        expect(await inbox.receive(message())).toBe("enqueued");
      } finally {
        await other.rollback();
      }
    });

    it("IBX-102 IBX-121 receiving, checking, claiming and acknowledging are one round trip each", async () => {
      const { on, owner } = await freshInbox();
      const db = watched(database().db);
      const inbox = on(db);
      const trips = async (work: () => Promise<unknown>) => {
        const before = db.calls.length;
        await work();
        return db.calls.length - before;
      };
      const incoming = message();
      expect(await trips(() => inbox.receive(incoming))).toBe(1);
      expect(await trips(() => inbox.receive(incoming))).toBe(1);
      expect(await trips(() => inbox.alreadyProcessed(incoming))).toBe(1);
      expect(await trips(() => inbox.enqueue(messages(99)))).toBe(1);
      expect(await trips(() => inbox.enqueue([]))).toBe(0);
      const batch = async () => {
        const claimed = await inbox.claim({ owner, batchSize: 50 });
        expect((await inbox.ack(owner, claimed)).changed).toHaveLength(50);
      };
      expect(await trips(batch)).toBe(2);
      expect(await trips(() => inbox.claim({ owner, batchSize: 50 }))).toBe(1);
      expect(await trips(() => inbox.claim({ owner, batchSize: 50 }))).toBe(1);
      expect(await trips(() => inbox.ack(owner, []))).toBe(0);
      expect(db.calls).not.toContain("transaction");
    });

    it("IBX-117 the schema has the inbox's tables, a view on them, and the indexes to claim by", async () => {
      const { names, inbox, owner } = await freshInbox();
      for (const object of [names.message, names.state, names.view]) {
        expect(await rowCount(database(), object)).toBe(0);
      }
      await inbox.receive(message());
      await inbox.abandon(owner, await inbox.claim({ owner }));
      for (const object of [names.message, names.state, names.view]) {
        expect(await rowCount(database(), object)).toBe(1);
      }
      const state = await indexesOf(database(), names.schema, bareName(names.state));
      const content = await indexesOf(database(), names.schema, bareName(names.message));
      expect(state.length).toBeGreaterThanOrEqual(2);
      expect(content.length).toBeGreaterThanOrEqual(1);
    });

    it("IBX-122 the rows to claim are indexed by status and by the time they can be claimed, leases included", async () => {
      const { names } = await freshInbox();
      const indexes = await indexesOf(database(), names.schema, bareName(names.state));
      if (database().db.dialect.name === "sqlserver") {
        // its primary key, and one each for ready, held, dead and expiring rows
        expect(indexes.length).toBeGreaterThanOrEqual(5);
        return;
      }
      if (database().db.dialect.name === "postgres") {
        // one for all: where a claim would move a row from one to another, it could not stay where it is
        expect(indexes.map((index) => index.columns)).toContain("status,visible_at,seq");
        return;
      }
      const byTime = indexes.filter((index) => index.columns === "visible_at,seq");
      expect(byTime.filter((index) => /status = 1\b/.test(index.filter))).toHaveLength(1);
      expect(byTime.filter((index) => /status = 2\b/.test(index.filter))).toHaveLength(1);
    });

    it("IBX-125 source and message id have one unique index together", async () => {
      const { names } = await freshInbox();
      const indexes = await indexesOf(database(), names.schema, bareName(names.message));
      const unique = indexes.filter((index) => index.unique);
      if (database().db.dialect.name === "sqlserver")
        expect(unique).toHaveLength(2); // and the primary key
      else expect(unique.map((index) => index.columns)).toContain("source,message_id");
    });
  });
}
