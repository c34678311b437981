import { describe, expect, it } from "vitest";
import { sqlServerDialect } from "../../src/sql/sqlserver/dialect.js";
import { procedures as proceduresOf } from "../../src/sql/sqlserver/queue.js";
import { migrations } from "../../src/sql/sqlserver/schema.js";
import { type Modelled, momentsOf, ringsOf, sequenceOf, tablesOf } from "../support/sqlserver-lock-model.js";

/**
 * Which calls can wait for each other in a ring, by a model of the locks on rows of indexes: see docs/decisions/0023. The texts of the
 * procedures are those that `migrate` deploys. The forms that they had before, and forms that look as good and are not, are below:
 * the model has to find their rings. test/contract/sqlserver-stress.test.ts runs the same pairs on a server and counts its deadlocks.
 */
const { names, defaults } = sqlServerDialect;
const inbox = names("inbox", defaults.schema, defaults.inbox);
const outbox = names("outbox", defaults.schema, defaults.outbox);

const shipped: Modelled = {
  tables: tablesOf([inbox, outbox].flatMap((n) => migrations[n.kind].flatMap(({ up }) => up(n)))),
  texts: new Map([
    ...[inbox, outbox].flatMap((n) =>
      proceduresOf(n).map(({ suffix, text }) => [`${n.table}_${suffix}`, text] as const),
    ),
    ["ack and enqueue", sqlServerDialect.ackAndEnqueue!(inbox, outbox).text],
  ]),
};

/** Only these procedures, some of them with another text. */
const among = (procedures: readonly string[], changed: Readonly<Record<string, string>> = {}): Modelled => ({
  ...shipped,
  texts: new Map(procedures.map((name) => [name, changed[name] ?? shipped.texts.get(name)!])),
});

/** The text of a shipped procedure with another part. The part must be there. */
function withPart(name: string, part: string, other: string): string {
  const text = shipped.texts.get(name)!;
  if (!text.includes(part)) throw new Error(`${name} has no part ${part}`);
  return text.replaceAll(part, other);
}

const versions = { rowVersions: true };
const locks = { rowVersions: false };
const ringsIn = (model: Modelled, settings = versions) => ringsOf(momentsOf(model, settings));

describe("rings of waiting calls on SQL Server, by a model of its locks", () => {
  /**
   * The same new messages in two batches, in two orders: each inserts one key and waits for the other. New messages are inserted in the
   * order of the batch, because their numbers are the order of a partition key. The server ends one call, and it is repeated.
   */
  const isArrivals = (ring: string) =>
    ring.split(", ").every((one) => / waits for X new \w+_\w*Key\(/.test(one));
  const others = (rings: readonly string[]) => rings.filter((ring) => !isArrivals(ring));

  it.each([
    ["on", versions],
    ["off", locks],
  ])(
    "ADD-01 IBX-030 OBX-017 no two or three calls wait in a ring, but two that insert the same keys: READ_COMMITTED_SNAPSHOT %s",
    (_, settings) => {
      expect(others(ringsIn(shipped, settings))).toEqual([]);
    },
  );

  it("the model reads locks from the procedures as they are written", () => {
    const of = (name: string) => sequenceOf(shipped, versions, name);
    expect(of("Inbox_AlreadyProcessed")).toEqual([
      "U Inbox_Key(1)",
      "U InboxMessages_PK(1)", // behind the key, for the hash
      "U InboxState_PK(1)",
      "U InboxMessages_PK(1)",
      "X InboxMessages_PK(1)",
    ]);
    expect(of("Inbox_Renew")).toEqual(["U InboxState_PK(1)", "X InboxState_PK(1)", "X Inbox_Dead(1)"]);
    expect(of("Inbox_PurgeKeys")).toEqual([
      "S InboxKeys_FirstSeen(1)?",
      "S InboxKeys_PK(1)?",
      "X InboxKeys_Key(1)?",
      "X InboxKeys_PK(1)?",
      "X InboxKeys_PK(1)",
      "X InboxKeys_Key(1)",
      "X InboxKeys_FirstSeen(1)",
    ]);
    expect(of("Outbox_Claim").join(", ")).toContain(
      "U OutboxControls_PK(1), U OutboxControls_PK(1), X OutboxControls_PK(1), U Outbox_Ready(1)?, U OutboxState_PK(1)?",
    );
    expect(of("Inbox_Purge").join(", ")).toContain(
      "X Inbox_Key(1)?, X InboxMessages_PK(1)?, X InboxDone_PK(1)?",
    );
    expect(of("Outbox_EnqueueMessages")).toContain("X partition key(1)");
    expect(of("Outbox_ApplyPartitionChanges")[0]).toBe("X oncebox infra.Outbox partitions?");
  });

  // ---- Issue: claim and reaper enter the states through two indexes

  /**
   * A claim locks the entry of a ready message, then meets its state, which the reaper has locked, and skips it. The entry stays locked,
   * and the reaper, which makes the message dead, waits for it. That is a wait and no ring: from its first pick on, a claim waits for
   * nobody. All that it picks is under READPAST, and what it changes then, it has locked through both indexes.
   */
  it("ADD-01 the reaper may wait for a claim, and the claim not for the reaper", () => {
    expect(ringsIn(among(["Inbox_Claim", "Inbox_Reap", "Inbox_ApplyPartitionChanges"]))).toEqual([]);
    expect(ringsIn(among(["Outbox_Claim", "Outbox_Reap", "Outbox_MakeDue"]), locks)).toEqual([]);
  });

  it("ADD-01 a claim that waited for the states of its entries would be in a ring with the reaper", () => {
    const waiting = withPart("Inbox_Claim", "updlock, readpast", "updlock");
    expect(ringsIn(among(["Inbox_Claim", "Inbox_Reap"], { Inbox_Claim: waiting }))).toContain(
      "Inbox_Claim waits for U InboxState_PK(1), Inbox_Reap waits for X Inbox_Ready(1)",
    );
  });

  it("a claim that read its states once more, after its commit, would be in a ring with a redelivery", () => {
    const select = /from @changed c\s+cross apply/.exec(shipped.texts.get("Inbox_Claim")!)![0];
    const again = select.replace(
      "@changed c",
      "@changed c\ninner join [infra].[InboxState] s with (forceseek) on s.seq = c.seq",
    );
    const joined = among(["Inbox_Claim", "Inbox_ReceiveMessages"], {
      Inbox_Claim: withPart("Inbox_Claim", select, again),
    });
    expect(ringsIn(joined, locks)).toContain(
      "Inbox_Claim waits for S InboxMessages_PK(1), Inbox_ReceiveMessages waits for X InboxState_PK(1)",
    );
    expect(others(ringsIn(joined, versions))).toEqual([]);
  });

  // ---- Issue: purge by the number, delivery by the key

  const byNumber = `create or alter procedure [infra].[Inbox_Purge] @limit int
as
begin transaction;
insert into @old (seq)
select m.seq
from @scanned w
inner join [infra].[InboxMessages] m with (forceseek, updlock, readpast, rowlock, readcommittedlock) on m.seq = w.seq
inner join [infra].[InboxDone] s with (forceseek, updlock, readpast, rowlock, readcommittedlock) on s.seq = m.seq;
delete from [infra].[InboxMessages]
from @old o, [infra].[InboxMessages] with (forceseek, updlock, rowlock, readcommittedlock)
where [InboxMessages].seq = o.seq;
commit transaction;`;

  it.each(["ReceiveMessages", "AlreadyProcessed", "Mark"])(
    "IBX-104 a purge that locked messages by their numbers was in a ring with %s, and the one by their keys is in none",
    (call) => {
      const pair = ["Inbox_Purge", `Inbox_${call}`];
      const before = ringsIn(among(pair, { Inbox_Purge: byNumber }));
      expect(before.some((ring) => /Inbox_Purge waits for X Inbox_Key\(1\)/.test(ring))).toBe(true);
      expect(others(ringsIn(among(pair)))).toEqual([]);
    },
  );

  it("OBX-017 a purge of keys that converted its locks would be in a ring with who reads a key, without row versions", () => {
    const pair = ["Inbox_PurgeKeys", "Inbox_InspectKey"];
    const converting = { Inbox_PurgeKeys: withPart("Inbox_PurgeKeys", "xlock", "updlock") };
    expect(ringsIn(among(pair, converting), locks)).toContain(
      "Inbox_InspectKey waits for S InboxKeys_PK(1), Inbox_PurgeKeys waits for X InboxKeys_Key(1)",
    );
    expect(ringsIn(among(["Inbox_TryBegin", ...pair]), locks)).toEqual([]);
  });

  it("OBX-017 an enqueue that looked up the id of a natural key would be in a ring with a purge", () => {
    const pair = among(["Outbox_EnqueueMessages", "Outbox_Purge"]);
    const narrow = migrations.outbox
      .flatMap(({ up }) => up(outbox))
      .map((one) => one.replace(" include (id)", ""));
    expect(ringsIn({ ...pair, tables: tablesOf(narrow) })).toContain(
      "Outbox_EnqueueMessages waits for S OutboxMessages_PK(1), Outbox_Purge waits for X Outbox_NaturalKey(1)",
    );
    expect(others(ringsIn(pair))).toEqual([]);
  });

  // ---- Operators

  it("ADD-10 an operator's discard that locked messages by their numbers was in a ring with a delivery", () => {
    const discard = `create or alter procedure [infra].[Inbox_Discard] @items nvarchar(max)
as
begin transaction;
insert into @gone (seq, keyed)
select m.seq, s.keyed
from openjson(@items) with (seq bigint '$') i
inner join [infra].[InboxMessages] m with (forceseek, updlock, rowlock, readcommittedlock) on m.seq = i.seq
inner join [infra].[InboxState] s with (forceseek, updlock, rowlock, readcommittedlock) on s.seq = m.seq;
delete from [infra].[InboxMessages]
from @gone g, [infra].[InboxMessages] with (forceseek, updlock, rowlock, readcommittedlock)
where [InboxMessages].seq = g.seq;
commit transaction;`;
    const rings = ringsIn(
      among(["Inbox_Discard", "Inbox_ReceiveMessages", "Inbox_Mark"], { Inbox_Discard: discard }),
    );
    expect(rings).toContain(
      "Inbox_Discard waits for U InboxMessages_PK(2), Inbox_ReceiveMessages waits for U InboxMessages_PK(1)", // in the order of two messages
    );
    expect(rings).toContain(
      "Inbox_Discard waits for U InboxState_PK(1), Inbox_Mark waits for U InboxMessages_PK(1)", // on one message
    );
  });

  it("ADD-10 a dead state is entered through its own row: through the index of the dead, replay and discard would be in a ring", () => {
    const pair = ["Inbox_Discard", "Inbox_Replay"];
    const either = Object.fromEntries(pair.map((name) => [name, withPart(name, "index(1), ", "")]));
    expect(ringsIn(among(pair, either))).toContain(
      "Inbox_Discard waits for U InboxState_PK(1), Inbox_Replay waits for X Inbox_Dead(1)",
    );
    expect(ringsIn(among(pair))).toEqual([]);
  });

  // ---- Partition keys, before decision 23

  it("ADD-01 an acknowledgement that locked its partition key was in a ring with an arrival", () => {
    const lockKey =
      "exec @locked = sp_getapplock @Resource = @lock, @LockMode = 'Exclusive', @LockOwner = 'Transaction';";
    const change = (set: string) => `update [infra].[InboxState]
set ${set}
from openjson(@items) with (seq bigint '$') i, [infra].[InboxState] with (forceseek, updlock, rowlock, readcommittedlock)
where [InboxState].seq = i.seq;`;
    const inTransaction = (body: string) => `as\nbegin transaction;\n${body}\ncommit transaction;`;
    const before: Modelled = {
      ...shipped,
      texts: new Map([
        ["acknowledgement", inTransaction(`${change("owner = null")}\n${lockKey}`)],
        ["arrival", inTransaction(`${lockKey}\n${change("status = 0")}`)],
      ]),
    };
    expect(ringsIn(before)).toContain(
      "acknowledgement waits for X partition key(2), arrival waits for U InboxState_PK(1)",
    );
  });
});
