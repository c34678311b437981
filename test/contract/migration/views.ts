import { describe, expect, it } from "vitest";
import { createInbox } from "../../../src/inbox/inbox.js";
import { createOutbox } from "../../../src/outbox/outbox.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import type { SqlRow } from "../../../src/sql/driver.js";
import { migrate } from "../../../src/sql/migrate.js";
import { type ContractHarness, testClock, useDatabase } from "../harness.js";
import { columnOf, inSchemaOf, namesOf, shownRows } from "../support/database.js";
import { newName } from "./support.js";

const inboxColumns = [
  ...[
    "Source",
    "MessageId",
    "Topic",
    "Payload",
    "Hash",
    "FirstSeenUtc",
    "LastSeenUtc",
    "Status",
    "State",
    "LockedUntil",
  ],
  ...["OwnerToken", "Attempt", "LastError", "NextAttemptAt", "DueTimeUtc"],
];
const outboxColumns = [
  ...[
    "Id",
    "Topic",
    "Payload",
    "CreatedAt",
    "Status",
    "State",
    "LockedUntil",
    "OwnerToken",
    "IsProcessed",
    "ProcessedAt",
  ],
  ...["ProcessedBy", "RetryCount", "LastError", "NextAttemptAt", "MessageId", "CorrelationId", "DueTimeUtc"],
];

const time = (value: unknown): number | null =>
  value === null ? null : new Date(value instanceof Date ? value : String(value)).getTime();
const lower = (value: unknown): string | null => (value === null ? null : String(value).toLowerCase());

export function viewsContract(harness: ContractHarness): void {
  describe(`${harness.name} migration: views`, () => {
    const database = useDatabase(harness);

    it("IBX-117 the view shows the inbox under the specification's names", async () => {
      const { db } = database();
      const table = newName();
      await migrate(db, { ...inSchemaOf(database()), inbox: table, outbox: false });
      const clock = testClock();
      const inbox = createInbox(db, { ...inSchemaOf(database()), table, clock });
      const { view } = namesOf(database(), "inbox", table);
      const rows = async (): Promise<readonly SqlRow[]> =>
        shownRows(database(), `select * from ${view} order by ${columnOf(db, "MessageId")}`);
      const base = { source: "stripe", topic: "paid", payload: '{"n":1}', hash: "sha256:0102ff" };
      await inbox.alreadyProcessed({ source: "stripe", messageId: "0-seen" });
      const dueAt = new Date(clock().getTime() + 86_400_000);
      await inbox.receive({ ...base, messageId: "1-due", dueAt });
      await inbox.receive({ ...base, messageId: "2-held" });
      const owner = newOwnerToken();
      const [held] = await inbox.claim({ owner, leaseMs: 60_000 });
      await inbox.receive({ ...base, messageId: "3-dead" });
      await inbox.fail(owner, await inbox.claim({ owner }), "410");
      await inbox.receive({ ...base, messageId: "4-done" });
      await inbox.ack(owner, await inbox.claim({ owner }));

      const shown = await rows();
      expect(Object.keys(shown[0]!)).toEqual(expect.arrayContaining(inboxColumns));
      expect(shown.map((row) => [row.MessageId, row.Status, row.State])).toEqual([
        ["0-seen", "seen", "Seen"],
        ["1-due", "waiting", "Processing"],
        ["2-held", "running", "Processing"],
        ["3-dead", "dead", "Dead"],
        ["4-done", "done", "Done"],
      ]);
      const [, due, leased, dead] = shown;
      expect(due).toMatchObject({ Source: "stripe", Topic: "paid", Payload: '{"n":1}', LockedUntil: null });
      expect(due!.Hash).toBe("sha256:0102ff");
      expect(time(due!.DueTimeUtc)).toBe(dueAt.getTime());
      expect(time(due!.NextAttemptAt)).toBe(dueAt.getTime());
      expect(time(due!.FirstSeenUtc)).toBe(clock().getTime());
      expect(time(due!.LastSeenUtc)).toBe(clock().getTime());
      expect(lower(leased!.OwnerToken)).toBe(owner);
      expect(time(leased!.LockedUntil)).toBe(held!.lockedUntil!.getTime());
      expect([Number(leased!.Attempt), Number(dead!.Attempt), dead!.LastError]).toEqual([0, 1, "410"]);
      const now = clock().getTime();
      expect(shown.map((row) => time(row.LastAttemptAt))).toEqual([null, null, null, now, now]);
    });

    it("OBX-094 the view shows the outbox under the specification's names", async () => {
      const { db } = database();
      const table = newName();
      await migrate(db, { ...inSchemaOf(database()), inbox: false, outbox: table });
      const clock = testClock();
      const outbox = createOutbox(db, { ...inSchemaOf(database()), table, clock, processedBy: "worker" });
      const { view } = namesOf(database(), "outbox", table);
      const owner = newOwnerToken();
      const dueAt = new Date(clock().getTime() + 86_400_000);
      const ready = await outbox.enqueue({ topic: "0", payload: "p", correlationId: "c", dueAt });
      await outbox.enqueue({ topic: "1", payload: "p" });
      const [held] = await outbox.claim({ owner, leaseMs: 60_000 });
      await outbox.enqueue({ topic: "2", payload: "p" });
      await outbox.ack(owner, await outbox.claim({ owner }));
      await outbox.enqueue({ topic: "3", payload: "p" });
      const failed = await outbox.claim({ owner });
      await outbox.fail(owner, failed, "410");

      const shown = await shownRows(database(), `select * from ${view} order by topic`);
      expect(Object.keys(shown[0]!)).toEqual(expect.arrayContaining(outboxColumns));
      expect(shown.map((row) => [row.Status, row.State, Number(row.IsProcessed)])).toEqual([
        ["waiting", "Ready", 0],
        ["running", "InProgress", 0],
        ["done", "Done", 1],
        ["dead", "Failed", 0],
      ]);
      const [waiting, leased, done, dead] = shown;
      expect(lower(waiting!.Id)).toBe(ready);
      expect(waiting).toMatchObject({ Topic: "0", Payload: "p", CorrelationId: "c", ProcessedAt: null });
      expect(time(waiting!.CreatedAt)).toBe(clock().getTime());
      expect(time(waiting!.DueTimeUtc)).toBe(dueAt.getTime());
      expect(time(waiting!.NextAttemptAt)).toBe(dueAt.getTime());
      expect(lower(leased!.OwnerToken)).toBe(owner);
      expect(lower(leased!.MessageId)).toBe(held!.messageId);
      expect(time(leased!.LockedUntil)).toBe(held!.lockedUntil!.getTime());
      expect(done!.ProcessedBy).toBe("worker");
      expect(time(done!.ProcessedAt)).toBe(clock().getTime());
      expect([Number(dead!.RetryCount), dead!.LastError]).toEqual([1, "410"]);
      const now = clock().getTime();
      expect(shown.map((row) => time(row.LastAttemptAt))).toEqual([null, null, now, now]);
    });

    it("IBX-117 OBX-094 on PostgreSQL no column and no view needs quotes, and a view with other columns is replaced", async (test) => {
      const { db, schema, raw } = database();
      test.skip(db.dialect.name !== "postgres", "the others compare names without their case");
      const table = newName().toLowerCase();
      const create = () => migrate(db, { ...inSchemaOf(database()), inbox: table, outbox: `${table}_out` });
      await create();
      const columns = await raw(
        `select table_name as name, column_name as "column" from information_schema.columns where table_schema = '${schema}' and table_name like '${table}%messages'`,
      );
      expect(new Set(columns.map(({ name }) => name))).toEqual(
        new Set([`${table}_messages`, `${table}_out_messages`]),
      );
      for (const { column } of columns) expect(column).toMatch(/^[a-z]+(_[a-z]+)*$/);
      const unquoted = columns.filter(({ name }) => name === `${table}_messages`).map(({ column }) => column);
      expect(
        await raw(`select ${unquoted.join(", ")} from ${schema}.${table}_messages where status = 'dead'`),
      ).toEqual([]);

      await raw(`drop view ${schema}.${table}_messages`);
      await raw(`create view ${schema}.${table}_messages as select 1 as "MessageId"`);
      await create();
      expect(await raw(`select message_id from ${schema}.${table}_messages`)).toEqual([]);
    });

    it("OBX-094 ADD-03 the view shows no expiry after a replay", async () => {
      const { db } = database();
      const table = newName();
      await migrate(db, { ...inSchemaOf(database()), inbox: false, outbox: table });
      const clock = testClock();
      const outbox = createOutbox(db, { ...inSchemaOf(database()), table, clock });
      const expiresAt = new Date(clock().getTime() + 1_000);
      const id = await outbox.enqueue({ topic: "t", payload: "", expiresAt });
      const { view } = namesOf(database(), "outbox", table);
      const shown = async () => time((await shownRows(database(), `select * from ${view}`))[0]!.ExpiresAt);
      expect(await shown()).toBe(expiresAt.getTime());

      clock.advance(1_000);
      await outbox.claim({ owner: newOwnerToken() });
      await outbox.replay([{ id }]);
      expect((await outbox.get({ id }))!.expiresAt).toBeNull();
      expect(await shown()).toBeNull();
    });
  });
}
