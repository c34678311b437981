import { describe, expect, it } from "vitest";
import { createControls } from "../../src/sql/sqlserver/controls.js";
import { sqlServerDialect } from "../../src/sql/sqlserver/dialect.js";
import { procedures as proceduresOf } from "../../src/sql/sqlserver/queue.js";
import { type Access, accessesOf } from "../support/sqlserver-locks.js";

const { names, defaults } = sqlServerDialect;
const inbox = names("inbox", defaults.schema, defaults.inbox);
const outbox = names("outbox", defaults.schema, defaults.outbox);

const procedures = [inbox, outbox].flatMap((n) =>
  proceduresOf(n).map(({ suffix, text }) => ({
    name: `${n.table}_${suffix}`,
    text,
    accesses: accessesOf(text, n.table),
  })),
);
const textOf = (name: string): string => procedures.find((one) => one.name === name)!.text;

/** What a transaction may wait for, in this order. See docs/decisions/0023. */
const order = ["keys", "message", "state", "done", "controls"];

/**
 * The tables whose locks a procedure waits for, in the order of the text. Rows that it has locked before are not waited for
 * again, and neither are rows that it chose by skipping locked ones, or new rows.
 */
function waits(accesses: readonly Access[]): readonly string[] {
  const waited: string[] = [];
  const chosen = new Set<string>();
  for (const { table, locks, skips, inserts } of accesses) {
    if (!order.includes(table) || !locks || inserts) continue;
    if (skips) chosen.add(table);
    else if (!chosen.has(table) && !waited.includes(table)) waited.push(table);
  }
  return waited;
}

describe("locks of the procedures on SQL Server", () => {
  it.each(procedures)(
    "ADD-01 IBX-030 OBX-017 $name waits for keys, then messages, then states, then done rows, then controls",
    ({ accesses }) => {
      const taken = waits(accesses);
      expect(taken).toEqual(order.filter((table) => taken.includes(table)));
    },
  );

  it("the reader of the procedures finds what it is for", () => {
    const of = (name: string) => procedures.find((one) => one.name === name)!.accesses;
    expect(waits(of("Inbox_ReceiveMessages"))).toEqual(["keys", "message", "state"]);
    expect(waits(of("Outbox_EnqueueMessages"))).toEqual(["keys"]);
    expect(waits(of("Inbox_Ack"))).toEqual(["state"]);
    expect(waits(of("Inbox_Mark"))).toEqual(["message", "state"]);
    expect(waits(of("Outbox_Discard"))).toEqual(["message", "state"]);
    expect(waits(of("Inbox_Archive"))).toEqual(["message", "state"]);
    expect(waits(of("Outbox_Resend"))).toEqual(["message", "done"]);
    expect(waits(of("Inbox_Claim"))).toEqual(["controls"]);
    expect(waits(of("Outbox_PutControl"))).toEqual(["controls"]);
    const inverted = accessesOf(
      `begin
update [infra].[InboxState] with (forceseek, updlock, rowlock) set status = 1 where seq = @seq;
exec @locked = sp_getapplock @Resource = @key, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
end`,
      "Inbox",
    );
    expect(waits(inverted)).toEqual(["state", "keys"]);
  });

  it("IBX-030 ADD-17 a batch that is delivered again locks all its messages, by key, and then their states, by number", () => {
    const text = textOf("Inbox_ReceiveMessages");
    const found = /insert into @found[^;]*;/.exec(text)![0];
    expect(found).toMatch(
      /order by j\.source, j\.message_id\) i\s+inner join \[infra\]\.\[InboxMessages\] m with \([^)]+\), forceseek, updlock/,
    );
    expect(found).not.toContain("InboxState");
    const known = /insert into @known[^;]*;/.exec(text)![0];
    expect(known).toMatch(
      /order by j\.seq\) f\s+left join \[infra\]\.\[InboxState\] s with \(forceseek, updlock/,
    );
    expect(known).not.toMatch(/\[Inbox\] m with \([^)]*updlock/);
    expect(text.indexOf(found)).toBeLessThan(text.indexOf(known));
    // settlements take their states in the order of @items, which is that of the numbers
    for (const name of ["Inbox_Ack", "Inbox_Release", "Inbox_Renew"])
      expect(textOf(name), name).toMatch(
        /from openjson\(@items\) with \(seq bigint '\$'\) i, \[infra\]\.\[InboxState\]/,
      );
  });

  it("ADD-17 a control is one row with one lock, and whoever holds it waits for nothing else", () => {
    for (const queue of ["Inbox", "Outbox"]) {
      // no other index, whose entry would be a second lock
      expect(createControls(queue === "Inbox" ? inbox : outbox)).toContain(
        `constraint [${queue}Controls_PK] primary key clustered (scope, name)`,
      );
      const claim = procedures.find((one) => one.name === `${queue}_Claim`)!;
      const locked = claim.accesses.findIndex(({ table, locks }) => table === "controls" && locks);
      const states = claim.accesses.filter(({ table, locks }) => table === "state" && locks);
      expect(claim.accesses[locked]!.hints).toContain(`index([${queue}Controls_PK]), updlock`);
      expect(claim.accesses.slice(0, locked).filter(({ locks }) => locks)).toEqual([]);
      expect(states.map(({ skips }) => skips)).toEqual([true, true, false, true]); // two picks, the update of what they locked, what waits for a limit
      for (const verb of ["PutControl", "EndControl"]) {
        const { name, accesses } = procedures.find((one) => one.name === `${queue}_${verb}`)!;
        expect(new Set(accesses.map(({ table }) => table)), name).toEqual(new Set(["controls"]));
      }
      // what both return is counted without locks, in a transaction too
      expect(textOf(`${queue}_Controls`)).toMatch(
        /\nif exists \(select 1 from sys\.databases [^\n]*\n\s+set transaction isolation level read uncommitted;/,
      );
    }
  });

  it("OBX-017 a key of the inbox store is one row, and every call that changes it locks its key first", () => {
    for (const verb of ["TryBegin", "ChangeKey", "MarkKey", "PurgeKeys"]) {
      const { name, accesses } = procedures.find((one) => one.name === `Inbox_${verb}`)!;
      const first = accesses.find(({ locks, inserts }) => locks && !inserts)!;
      expect(first.hints, name).toContain("index([InboxKeys_Key]), forceseek, updlock");
      expect(new Set(accesses.map(({ table }) => table)), name).toEqual(new Set(["store keys"]));
    }
  });

  it.each(
    procedures.filter(({ name }) =>
      /_(Claim|Reap|ApplyPartitionChanges|MakeDue|ExpireDead|Due|Purge)$/.test(name),
    ),
  )(
    "ADD-01 IBX-030 OBX-017 $name chooses rows without waiting for another transaction",
    ({ name, accesses }) => {
      expect(accesses.some(({ skips }) => skips)).toBe(true);
      // a claim waits for another claim that takes tokens of the same limit, before it locks anything
      expect(waits(accesses)).toEqual(name.endsWith("_Claim") ? ["controls"] : []);
    },
  );

  it("ADD-01 only the procedure that applies changes writes to partition queues, and no other holds their lock", () => {
    const writers = procedures
      .filter(({ accesses }) =>
        accesses.some((one) => one.table === "partition queue" && (one.locks || one.inserts)),
      )
      .map(({ name }) => name);
    expect(writers).toEqual(["Inbox_ApplyPartitionChanges", "Outbox_ApplyPartitionChanges"]);
    for (const { name, accesses } of procedures.filter((one) => writers.includes(one.name)))
      expect(accesses[0], name).toMatchObject({ table: "keys", skips: true });
  });

  it("ADD-01 no procedure of settlements, marks or maintenance takes the lock of a partition key", () => {
    const takers = procedures
      .filter(({ accesses }) => accesses.some(({ table, skips }) => table === "keys" && !skips))
      .map(({ name }) => name);
    expect(takers).toEqual(["Inbox_ReceiveMessages", "Outbox_EnqueueMessages", "Outbox_LockKeys"]);
  });

  it("ADD-21 an acknowledgement that enqueues locks the outbox's partition keys before the states of the handled messages", () => {
    const { text } = sqlServerDialect.ackAndEnqueue!(inbox, outbox);
    const calls = [...text.matchAll(/exec \[infra\]\.\[(\w+)\]/g)].map(([, name]) => name!);
    expect(calls).toEqual(["Outbox_LockKeys", "Inbox_Ack", "Outbox_EnqueueMessages"]);
    expect(calls.flatMap((name) => waits(procedures.find((one) => one.name === name)!.accesses))).toEqual([
      "keys",
      "state",
      "keys", // which it holds already
    ]);
    // outside of a caller's transaction the whole batch fails, and is repeated
    expect(text).toMatch(/@own = @outermost;\s+if @outermost = 1 commit transaction;/);
    expect(textOf("Outbox_EnqueueMessages")).toContain("if @outermost = 0 and @own = 0 set xact_abort off;");
  });

  it.each(procedures)(
    "IBX-030 OBX-017 $name seeks the rows that it locks, and reads what is committed now",
    ({ accesses }) => {
      const hot = accesses.filter(({ locks, inserts, table }) => locks && !inserts && table !== "keys");
      for (const { table, hints, text, isTarget, rest } of hot) {
        // A row is found by its number or by its key; or it is the first of a named index.
        if (isTarget)
          expect(rest, text).toMatch(/\bwhere (seq = @seq|id = @id|scope = @scope and name = @name)\b/);
        else expect(hints, `${table}: ${text}`).toMatch(/forceseek|index\(|readpast/);
        expect(hints, `${table}: ${text}`).toMatch(/rowlock/);
        expect(hints, `${table}: ${text}`).toMatch(/readcommittedlock|serializable/);
      }
    },
  );

  it("IBX-122 OBX-100 FORCESEEK and indexes are named in FROM clauses only, as SQL Server wants it (error 1069)", () => {
    const targets = procedures.flatMap(({ accesses }) => accesses.filter(({ isTarget }) => isTarget));
    expect(targets.length).toBeGreaterThan(5);
    for (const { hints, text } of targets) expect(hints, text).not.toMatch(/forceseek|index/);
  });

  it("ADD-01 every statement on a partition queue seeks a named index", () => {
    const onQueue = procedures.flatMap(({ accesses }) =>
      accesses.filter(({ table, inserts }) => table === "partition queue" && !inserts),
    );
    expect(onQueue.length).toBeGreaterThan(6);
    for (const { hints, text } of onQueue)
      if (!/exists \(select 1 from/.test(text)) expect(hints, text).toMatch(/index\(\[\w+\]\), forceseek/);
  });

  it("ADD-01 a call locks its partition keys within its transaction, by name, and nothing without one", () => {
    for (const name of ["Inbox_ReceiveMessages", "Outbox_EnqueueMessages"]) {
      const text = textOf(name);
      const locking =
        /begin transaction;\s+if exists \(select 1 from @messages i where i\.partition_key is not null\)\s+begin\s.*?\nend\n/s.exec(
          text,
        )![0];
      expect(locking, name).toMatch(
        /while @lock is not null\s+begin\s+select @lock = min\(l\.name\) from @locks l where l\.name > @lock;\s+if @lock is not null exec @locked = sp_getapplock @Resource = @lock, @LockMode = 'Exclusive', @LockOwner = 'Transaction';/,
      );
      expect(text.match(/sp_getapplock/g)).toHaveLength(1);
    }
  });

  it("ADD-01 the head of a partition queue is found by one seek for each key, not by a join of all", () => {
    for (const queue of ["Inbox", "Outbox"])
      expect(textOf(`${queue}_ApplyPartitionChanges`)).toMatch(
        /cross apply \(\s+select top \(1\) q\.seq\s+from \S+ q with \(index\(\[\w+PartitionQueue_PK\]\), forceseek, readcommittedlock\)\s+where q\.partition_key = k\.partition_key\s+order by q\.position\s+\) h option \(loop join, force order\)/,
      );
  });

  it.each(procedures.filter(({ name }) => !/_(List|Stats|OldestDue)$/.test(name)))(
    "ADD-01 IBX-030 OBX-017 $name joins a queue's tables by loops, in the order of the text",
    ({ text }) => {
      const statements = text.replace(/--[^\n]*/g, "").split(";");
      const joins = /\b(join|apply) \[infra\]|\bapply \(|, \[infra\]\.\[\w+\] with \(/;
      for (const one of statements.filter((each) => joins.test(each)))
        expect(one.trim()).toMatch(/option \(loop join, force order\)$/);
    },
  );

  it("ADD-01 MID-05 in a caller's transaction, SNAPSHOT or not, every read on which a write depends is of what is committed now", () => {
    const verbs = [
      "ReceiveMessages",
      "AlreadyProcessed",
      "Mark",
      "EnqueueMessages",
      "Ack",
      "Abandon",
      "Release",
      "Renew",
    ];
    const inTransactions = procedures.filter(({ name }) => verbs.includes(name.split("_")[1]!));
    expect(inTransactions).toHaveLength(12);
    for (const { name, accesses } of inTransactions)
      for (const { table, inserts, hints, text } of accesses)
        if (table !== "keys" && !inserts) expect(hints, `${name}: ${text}`).toContain("readcommittedlock");
  });
});
