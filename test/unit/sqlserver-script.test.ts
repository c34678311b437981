import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createInbox, createOutbox, type Database, migrate, newOwnerToken } from "../../src/index.js";
import type { SqlStatement } from "../../src/sql/driver.js";
import { renderSchema, schemaBatches } from "../../src/sql/migrate.js";
import type { QueueNames } from "../../src/sql/names.js";
import { sqlServerDialect } from "../../src/sql/sqlserver/dialect.js";
import { classify } from "../../src/sql/sqlserver/faults.js";
import { sqlServerOperators } from "../../src/sql/sqlserver/operators.js";
import type { TestDatabase } from "../contract/harness.js";
import { watched } from "../contract/support/watched.js";
import { sqliteHarness } from "../support/sqlite-harness.js";

const batches = schemaBatches(sqlServerDialect);
const text = renderSchema(sqlServerDialect);
const procedure = (name: string) => batches.find((batch) => batch.includes(`procedure [infra].[${name}]`))!;

const { names, defaults } = sqlServerDialect;
const queues = [
  names("inbox", defaults.schema, defaults.inbox),
  names("outbox", defaults.schema, defaults.outbox),
];
const readsOf = (n: QueueNames): readonly SqlStatement[] => {
  const { nextDead, lockOperation, operations } = sqlServerOperators.changes(n);
  return [...Object.values(sqlServerOperators.reads(n)), nextDead, lockOperation, operations];
};

describe("the schema of SQL Server, as a DBA reads it", () => {
  const database = { id: "sqlserver:none", driver: {} };

  it("IBX-117 OBX-094 has no branch for another product, and no two procedures that receive or enqueue: one of each checks plain parameters and calls the other", () => {
    expect(text).not.toMatch(/babelfish|json_extract_path_text|serverproperty/i);
    const names = [...text.matchAll(/^create or alter procedure \[infra\]\.\[(\w+)\]/gm)].map(
      ([, name]) => name!,
    );
    expect(names.filter((name) => /receive/i.test(name))).toEqual(["Inbox_ReceiveMessages", "Inbox_Receive"]);
    expect(names.filter((name) => /enqueue(?!d)/i.test(name))).toEqual([
      "Outbox_EnqueueMessages",
      "Outbox_Enqueue",
    ]);
    for (const plain of ["Inbox_Receive", "Outbox_Enqueue"]) {
      expect(procedure(plain)).toContain(`exec [infra].[${plain}Messages]\n`);
      expect(procedure(plain)).not.toMatch(
        /@(items|revive|blocks|now|error|handled|own)\b|\b(insert|update|delete)\b/,
      );
    }
    expect(new Set(names).size).toBe(names.length);
    expect(text.match(/^create (?!or alter)(procedure|function|view)/gm)).toBeNull();
  });

  it("IBX-117 OBX-094 may be run twice: tables are created in one guarded transaction, under XACT_ABORT", () => {
    expect(batches[0]).toContain("set xact_abort on");
    const creating = batches.filter((batch) => /create (table|index)/.test(batch));
    expect(creating.length).toBeGreaterThanOrEqual(4);
    for (const batch of creating) expect(batch).toMatch(/^if (not exists|object_id)/);
    const migrations = creating.filter((batch) => batch.includes("_PK"));
    for (const batch of migrations.filter((one) => one.includes("begin transaction")))
      expect(batch.indexOf("insert into [infra].[oncebox_migrations]")).toBeGreaterThan(
        batch.lastIndexOf("lock_escalation"),
      );
    for (const batch of batches.filter((one) => /procedure/.test(one)))
      expect(batch).toMatch(/\nas\nset nocount, xact_abort on;/);
  });

  it("IBX-030 OBX-017 no procedure takes the time from its caller, and a store on SQL Server takes no clock", () => {
    const parameters = batches.flatMap(
      (batch) => /^create or alter procedure [\s\S]*?\nas\n/.exec(batch) ?? [],
    );
    expect(parameters.length).toBeGreaterThan(50);
    for (const declared of parameters) expect(declared).not.toMatch(/@\w*now\b/);
    const calls = [
      ...Object.values(sqlServerDialect.keys(queues[0]!)),
      ...queues.flatMap((n) => Object.values(sqlServerDialect[n.kind](n, { blockOnDead: false }))),
    ];
    for (const { name, text: call } of calls) expect(call, name).not.toMatch(/@now/);
    const db = { ...database, dialect: sqlServerDialect } as unknown as Database;
    expect(() => createInbox(db, { clock: () => new Date() })).toThrow("clock cannot be given on SQL Server");
  });

  it("IBX-122 OBX-100 no table is ever locked as a whole", () => {
    const tables = [...text.matchAll(/create table (\[infra\]\.\[(?:In|Out)box\w*\])/g)].map(
      ([, name]) => name!,
    );
    expect(tables).toHaveLength(19);
    for (const table of tables)
      expect(text).toContain(`alter table ${table} set (lock_escalation = disable)`);
  });

  it("IBX-030 OBX-017 the claim counts rows that it can have, and computes the back-off once", () => {
    for (const name of ["Inbox_Claim", "Outbox_Claim"]) {
      const claim = procedure(name);
      expect(claim.match(/select top[^;]+updlock, readpast[^;]+;/g)).toHaveLength(2); // with controls and without
      expect(claim.match(/power\(@factor/g)).toHaveLength(1);
      // the payloads are returned when nothing is locked any more: a client may read them slowly
      const read = claim.lastIndexOf("select c.seq, c.attempt");
      expect(read).toBeGreaterThan(claim.lastIndexOf("commit transaction"));
      expect(claim.slice(read)).toMatch(
        /from @changed c\s+cross apply \S+_MessageOf\]\(c\.seq\) m\s+order by c\.seq;$/,
      );
    }
  });

  it("IBX-030 OBX-017 READPAST skips a locked state below the TOP, wherever states are picked", () => {
    // a condition on a column that is in no index: the state itself is read, and skipped when it is locked, before TOP counts it
    const picks = text.match(
      /select top \([^;]+?State\] r with \([^\n]*updlock, readpast[^;]+?(order by|\) p,)/g,
    )!;
    expect(picks).toHaveLength(8); // of each queue: two claims, the reaper; of the outbox: MakeDue, ExpireDead
    for (const pick of picks)
      expect(pick).toMatch(/where [^;]*r\.(reclaimable_at|last_error|locked_until < @now)\b/);
    expect(text).not.toMatch(/create index .*\b(reclaimable_at|last_error)\b/);
  });

  it("IBX-030 OBX-017 a claim of live messages changes no column of an index on states", () => {
    const indexes = text.match(/create index \S+ on \S+State\] [^;]+/g)!;
    expect(indexes.map((one) => /\[\w+?_(\w+)\]/.exec(one)![1])).toEqual([
      ...["Ready", "DeadKeyed", "Dead"],
      ...["Ready", "DeadKeyed", "Dead"],
    ]);
    for (const name of ["Inbox_Claim", "Outbox_Claim"]) {
      const [update] = /update \S+State\]\nset .*?\noutput/s.exec(procedure(name))!;
      expect(update).not.toMatch(/\bvisible_at =/);
      expect(update).toContain("set status = case when p.dies = 1 then 4 else 1 end");
    }
  });

  it("IBX-122 OBX-100 the reaper walks the unfinished messages by number", () => {
    for (const queue of ["Inbox", "Outbox"]) {
      // no other index has the ready and the blocked, so none is named
      const picks = procedure(`${queue}_Reap`).match(/from \S+State\] r with \([^;]+;/g)!;
      expect(picks).toHaveLength(1);
      expect(picks[0]).toMatch(
        /with \(updlock, readpast.*\n\s*where r\.status in \(1, 5\).*\n\s*order by r\.seq;$/,
      );
    }
  });

  it("ADD-01 a reaper that lets dead messages leave their partition queues has an index of those with a key", () => {
    for (const queue of ["Inbox", "Outbox"]) {
      const [leaving] = /insert into \S+PartitionChanges\][^;]+\bq\.seq = s\.seq[^;]+;/.exec(
        procedure(`${queue}_Reap`),
      )!;
      expect(leaving).toMatch(
        /State\] s with \(readpast[^)]*\)\s[^;]*where s\.status = 4 and s\.keyed = 1;$/,
      );
      // the condition of the index is that of the query, and the number is all that the query reads of a state
      expect(text).toContain(
        `[${queue}_DeadKeyed] on [infra].[${queue}State] (seq) where status = 4 and keyed = 1`,
      );
      expect(new Set(leaving.match(/\bs\.\w+/g))).toEqual(new Set(["s.seq", "s.status", "s.keyed"]));
    }
  });

  it("IBX-125 the look-up by the natural key is a seek, everywhere, and only one index begins with the key", () => {
    const texts = [text, ...queues.flatMap(readsOf).map((read) => read.text)].join("\n");
    const lookUps = [
      /\[infra\]\.\[(?:In|Out)boxMessages\] m[^\n]*(?:\n[^\n]*)?m\.(?:source|id) = [@ik]/g,
      /\[infra\]\.\[InboxKeys\] k[^\n]*\n[^\n]*k\.source = @/g,
      /\[infra\]\.\[(?:In|Out)boxMessages\] k[^\n]*(?:\n[^\n]*){5}k\.(?:source|id) = @/g,
    ].flatMap((lookUp) => {
      const found = texts.match(lookUp)!;
      expect(found.length).toBeGreaterThan(1);
      return found;
    });
    expect(lookUps.length).toBeGreaterThan(10);
    for (const one of lookUps) expect(one).toMatch(/with \((index\(\[InboxKeys_Key\]\), )?forceseek/);
    const begins = (first: string) =>
      text.match(
        new RegExp(`(?:unique nonclustered|index \\S+ on \\S+boxMessages\\]) \\(${first}\\b`, "g"),
      ) ?? [];
    for (const first of ["source, message_id", "id", "topic, natural_key", "correlation_id"])
      expect(begins(first).length, first).toBe(first === "correlation_id" ? 2 : 1);
    expect(procedure("Outbox_EnqueueMessages")).toMatch(
      /\[OutboxMessages\] m with \(forceseek, readcommittedlock\)\s+on m\.topic = i\.topic and m\.natural_key = /,
    );
  });

  it("IBX-030 OBX-017 a function of a row reads one table by its number, so that FORCESEEK holds under FORCE ORDER", () => {
    const functions = batches.filter((batch) => /function \S+ \(@seq bigint\)/.test(batch));
    expect(functions).toHaveLength(4);
    for (const batch of functions) {
      expect(batch).toMatch(/\nfrom \[infra\]\.\[\w+\] m with \(forceseek\)\nwhere m\.seq = @seq$/);
      expect(batch).not.toMatch(/\b(join|apply)\b/);
    }
    const calls = text.match(/.*\[(?:In|Out)box_(?:MessageOf|KeyOf)\]\(.*/g)!;
    expect(calls.length).toBeGreaterThan(12);
    // A condition on a join with it is a query of each row, which TOP keeps from becoming a join of all rows.
    for (const call of calls)
      expect(call).toMatch(
        /^\s*cross apply \S+\([a-z]\.seq\) [mk]\b|\(select top \(1\) 1 from \S+\([a-z]\.seq\) m\b|exists \(select 1 from \S+\(w\.seq\) k where k\.source = @source\b/,
      );
  });

  it("IBX-014 a redelivery writes three small columns, and contents only where they differ and the message is not done", () => {
    const updates = procedure("Inbox_ReceiveMessages").match(/update \[infra\]\.\[InboxMessages\]\n[^;]+;/g)!;
    const small = updates.find((one) => one.includes("deliveries ="))!;
    const [assigned] = /set .*?(?=\boutput\b)/s.exec(small)!;
    expect([...assigned.matchAll(/(?:set|,) (\w+) = /g)].map(([, column]) => column)).toEqual([
      "last_seen_at",
      "deliveries",
      "content_changed",
    ]);
    const contents = updates.filter((one) => one.includes("payload ="));
    expect(contents).toHaveLength(1);
    expect(contents[0]).toMatch(/old_status <> 3/);
    const [written, which] = contents[0]!.split(/\n\s*where /) as [string, string];
    const columns = [...written.matchAll(/(?:set|,) (\w+) = /g)].map(([, column]) => column);
    expect(columns).toHaveLength(8);
    for (const column of columns)
      expect(which).toMatch(new RegExp(`\\[InboxMessages\\]\\.${column} (collate \\w+ )?(<>|intersect)`));
  });

  it("MID-05 a key that another call inserts meanwhile does not doom the caller's transaction", () => {
    for (const name of [
      "Inbox_ReceiveMessages",
      "Inbox_Mark",
      "Inbox_AlreadyProcessed",
      "Inbox_TryBegin",
      "Inbox_MarkKey",
    ]) {
      const attempt =
        /begin try\s+if @outermost = 0 set xact_abort off;\s+(?:if @seq is null\s+)?insert into \[infra\]\.\[Inbox(?:Keys|Messages)\] [^;]+;\s+end try/;
      expect(procedure(name), name).toMatch(attempt);
      expect(procedure(name)).toMatch(/end catch;\s+set xact_abort on;/);
    }
    // A level of its own would stay open after another error, and the caller's commit would end that level only.
    const lenient = batches.filter((batch) => /begin try\s[^;]*set xact_abort off/.test(batch));
    expect(lenient).toHaveLength(6);
    for (const batch of lenient) {
      expect(batch).not.toMatch(/^\s*begin transaction/m);
      expect(batch).toMatch(/error_number\(\) not in \(2601, 2627\)\s+begin; throw; end;/);
    }
  });

  it("ADD-02 where READ_COMMITTED_SNAPSHOT is off, counts do not wait, and no read of a long text goes without locks", () => {
    const freely = /is_read_committed_snapshot_on = 0\)\s+set transaction isolation level read uncommitted/;
    const shortly = /is_read_committed_snapshot_on = 0\)\s+set lock_timeout 1000/;
    for (const queue of ["Inbox", "Outbox"]) {
      for (const verb of ["Stats", "OldestDue", "Controls", "Unhandled"]) {
        expect(procedure(`${queue}_${verb}`)).toMatch(freely);
        expect(procedure(`${queue}_${verb}`)).not.toMatch(/payload|headers|last_error|m\.\*/);
      }
      for (const verb of ["Get", "List", "Attempts"]) {
        expect(procedure(`${queue}_${verb}`)).toMatch(shortly);
        expect(procedure(`${queue}_${verb}`)).not.toContain("read uncommitted");
      }
    }
    for (const n of queues)
      for (const { name, text: read } of readsOf(n)) {
        if (name === "controls" || name === "unhandled") continue; // the procedures above
        expect(read, name).toMatch(/^declare @typed_[^;]+;\nexec sp_executesql N'set nocount on;/);
        expect(read, name).toMatch(shortly);
      }
  });

  it("FUN-10 operators' reads write to no table, and are the only texts that name one", () => {
    for (const n of queues) {
      for (const { name, text: read } of readsOf(n))
        expect(read, name).not.toMatch(/\b(insert into|update|delete from|merge into) \[/);
      const { changes } = sqlServerOperators;
      const { nextDead, lockOperation, operations, ...others } = changes(n);
      for (const { name, text: change } of Object.values(others))
        expect(change, name).toMatch(/^exec \[infra\]/);
    }
  });

  it("IBX-122 OBX-100 the text of an error is not in the narrow rows that claims rewrite", () => {
    for (const table of ["InboxState", "InboxDone", "OutboxState", "OutboxDone"])
      expect(text).toContain(`exec sp_tableoption N'[infra].[${table}]', 'large value types out of row', 1`);
  });

  it("ADD-01 statements on partition tables run for messages with a key only", () => {
    const writing = batches.filter((batch) => /insert into \S+PartitionChanges/.test(batch));
    expect(writing.length).toBeGreaterThan(15);
    for (const batch of writing) {
      if (batch.includes("_ApplyPartitionChanges]\nas")) continue; // it runs when there are changes
      const inserts = batch.match(/(?:.*\n)(?=\s*insert into \[infra\]\.\[\w+PartitionChanges\])/g)!;
      for (const before of inserts)
        expect(before, batch.slice(0, 60)).toMatch(
          /^\s*if (?:exists \(select 1 from @\w+ c where .*(?:keyed = 1|partition_key is not null)|@blocks = 0 and exists)/,
        );
    }
    const applying = batches.flatMap(
      (batch) => batch.match(/.*\n\s*exec \S+_ApplyPartitionChanges\]/g) ?? [],
    );
    expect(applying).toHaveLength(4);
    for (const before of applying)
      expect(before).toMatch(/^if exists \(select 1 from \S+PartitionChanges\] c with \(readpast, /);
  });

  it("OBX-095 no comment ends with what the server should read", () => {
    expect(text.match(/--[^\n]*(option \(|;$)/gm)).toBeNull();
  });

  it("ADD-01 a deadlock on a partition key is a fault that is worth a retry", () => {
    expect(text).toContain("throw 51205,");
    expect(classify({ number: 51205 })).toBe("rolledBack");
  });
});

describe("what migrate checks", () => {
  const wrong = sqlServerDialect.inspection.wrongSettings;
  let database: TestDatabase;
  beforeAll(async () => {
    database = await sqliteHarness("file").open();
  });
  afterAll(() => database.close());

  /** A real database, with the settings of another. */
  const withSettings = (row: Record<string, unknown>): Database => ({
    ...database.db,
    dialect: {
      ...database.db.dialect,
      inspection: {
        ...database.db.dialect.inspection,
        settings: { name: "settings", text: "select 1 as one" },
        wrongSettings: () => wrong(row),
      },
    },
  });

  it("IBX-116 OBX-093 refuses a server and a compatibility level that are too old, and does nothing", async () => {
    const old = migrate(withSettings({ snapshot: true, compatibility: 110, version: 13 }), {
      inbox: "refused",
    });
    await expect(old).rejects.toThrow(
      /version is 13.*2017.*compatibility level is 110.*alter database current/s,
    );
    expect(await database.raw("select name from sqlite_master where name like 'refused%'")).toEqual([]);
  });

  it("IBX-116 OBX-093 warns where READ_COMMITTED_SNAPSHOT is off", async () => {
    const { applied, warnings } = await migrate(
      withSettings({ snapshot: false, compatibility: 150, version: 15 }),
    );
    expect(applied).toHaveLength(2);
    expect(warnings).toEqual([
      expect.stringMatching(/READ_COMMITTED_SNAPSHOT is off.*alter database current/),
    ]);
    expect(await migrate(withSettings({ snapshot: true, compatibility: 160, version: 16 }))).toEqual({
      applied: [],
      warnings: [],
    });
  });

  it("IBX-102 OBX-080 more messages than one statement takes are sent in one transaction", async () => {
    expect(sqlServerDialect.maxItems).toBeLessThanOrEqual(1_000);
    const few: Database = { ...database.db, dialect: { ...database.db.dialect, maxItems: 2 } };
    await migrate(few);
    const db = watched(few);
    const outbox = createOutbox(db);
    const owner = newOwnerToken();
    const ids = await outbox.enqueue(
      Array.from({ length: 5 }, (_, n) => ({ topic: "t", payload: String(n) })),
    );
    expect(ids).toHaveLength(5);
    const claimed = await outbox.claim({ owner });
    expect(claimed.map(({ payload }) => payload)).toEqual(["0", "1", "2", "3", "4"]);
    expect((await outbox.ack(owner, claimed)).changed).toHaveLength(5);
    const inbox = createInbox(db);
    const received = Array.from({ length: 5 }, (_, n) => ({
      source: "s",
      messageId: String(n),
      topic: "t",
      payload: "",
    }));
    expect(await inbox.enqueue(received)).toEqual(Array.from({ length: 5 }, () => "enqueued"));
    expect(await inbox.enqueue([...received.slice(3), { ...received[0]!, messageId: "new" }])).toEqual([
      "duplicate",
      "duplicate",
      "enqueued",
    ]);
    expect(db.calls.filter((call) => call === "transaction")).toHaveLength(4);
  });
});
