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
    const text = textOf("Inbox_ReceiveMessages").replace(/--[^\n]*/g, "");
    const found = /insert into @found[^;]*;/.exec(text)![0];
    expect(found).toMatch(
      /order by j\.source, j\.message_id\) i\s+inner join \[infra\]\.\[InboxMessages\] m with \(forceseek, updlock/,
    );
    expect(found).not.toContain("InboxState");
    const known = /insert into @known[^;]*;/.exec(text)![0];
    expect(known).toMatch(
      /order by j\.seq\) f\s+left join \[infra\]\.\[InboxState\] s with \(forceseek, updlock/,
    );
    expect(known).not.toMatch(/\[Inbox\] m with \([^)]*updlock/);
    expect(text.indexOf(found)).toBeLessThan(text.indexOf(known));
    // each asks for its order by numbers that the server gives to the rows in the order in which it locks them
    expect(found).toMatch(/order by i\.source, i\.message_id option \(loop join, force order\);$/);
    expect(known).toMatch(/order by f\.seq option \(loop join, force order\);$/);
    for (const table of ["found", "known"])
      expect(text).toMatch(new RegExp(`declare @${table} table \\(\\s*place int identity`));
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
      expect(claim.accesses[locked]!.hints).toContain("updlock");
      // the clock is read when the limits are locked: a lease is not shortened by the wait
      const read = claim.text.indexOf("set @now = sysutcdatetime()");
      expect(read).toBeGreaterThan(claim.text.indexOf("select @limits = count(*)"));
      expect(claim.text.slice(0, read)).not.toMatch(/@now(?! datetime2)/);
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
      expect(first.hints, name).toMatch(/^index\(\[InboxKeys_Key\]\), forceseek, (updlock|xlock)/);
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
      // a queue has few controls, and their table has one index
      const hot = accesses.filter(
        ({ locks, inserts, table }) => locks && !inserts && table !== "keys" && table !== "controls",
      );
      for (const { table, hints, text, isTarget, rest } of hot) {
        // A row is found by its number or by its key; or it is the first of a named index.
        if (isTarget) expect(rest, text).toMatch(/\bwhere (seq = @seq|id = @id)\b/);
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

  it("ADD-01 every statement on a partition queue seeks", () => {
    const onQueue = procedures.flatMap(({ accesses }) =>
      accesses.filter(({ table, inserts }) => table === "partition queue" && !inserts),
    );
    expect(onQueue.length).toBeGreaterThan(6);
    for (const { hints, text } of onQueue)
      if (!/exists \(select 1 from/.test(text)) expect(hints, text).toMatch(/^forceseek/);
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
        /cross apply \(\s+select top \(1\) q\.seq\s+from \S+ q with \(forceseek, readcommittedlock\)\s+where q\.partition_key = k\.partition_key\s+order by q\.position\s+\) h;/,
      );
  });

  it.each(procedures.filter(({ name }) => !/_(List|Stats|OldestDue|Controls)$/.test(name)))(
    "ADD-01 IBX-030 OBX-017 $name seeks each table that it joins, so that the join is a loop over rows that name it",
    ({ text }) => {
      const joined = /\b(?:join|apply) \[infra\]\.\[\w+\] \w+|, \[infra\]\.\[\w+\](?= with)/g;
      for (const match of text.replace(/--[^\n]*/g, "").matchAll(joined)) {
        const rest = match.input.slice(match.index + match[0].length);
        expect(rest, match[0]).toMatch(/^ with \((index\(1\), |index\(\[InboxKeys_Key\]\), )?forceseek/);
      }
    },
  );

  it("IBX-030 OBX-017 a join is forced to its order only where a seek does not, and an index is named only where two could be sought", () => {
    const counted = (pattern: RegExp) =>
      Object.fromEntries(
        procedures
          .map(({ name, text }) => [name, text.match(pattern)?.length ?? 0] as const)
          .filter(([name, count]) => count > 0 && !name.startsWith("Outbox_")),
      );
    expect(counted(/option \(loop join, force order\)/g)).toEqual({
      Inbox_Claim: 3, // the pick beside controls, the update of what was picked, the wait for a token
      Inbox_Reap: 1, // the update of what was picked
      Inbox_Purge: 2, // message before done row; message before state
      Inbox_Get: 1, // state before done row
      Inbox_Discard: 2, // messages by key; then states by number
      Inbox_Archive: 2,
      Inbox_ReceiveMessages: 2,
      Inbox_PurgeKeys: 1, // each key, and not all of the source
    });
    expect(counted(/index\(\[/g)).toEqual({
      Inbox_Purge: 1, // the dead
      Inbox_TryBegin: 1,
      Inbox_ChangeKey: 1,
      Inbox_MarkKey: 1,
      Inbox_InspectKey: 1,
      Inbox_PurgeKeys: 2,
    });
  });

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
