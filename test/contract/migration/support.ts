import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { createInbox, type Inbox, type InboxOptions } from "../../../src/inbox/inbox.js";
import { createOutbox, type Outbox, type OutboxOptions } from "../../../src/outbox/outbox.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import type { Database } from "../../../src/sql/dialect.js";
import { type TestDatabase, testClock } from "../harness.js";

let made = 0;
/** A name that no other test has used. */
export const newName = (): string => `Queue${++made}`;

export async function exists(database: TestDatabase, table: string): Promise<boolean> {
  try {
    await database.raw(`select count(*) as n from ${table}`);
    return true;
  } catch {
    return false;
  }
}

/** The numbers of the migrations that the ledger has for a queue. */
export async function recorded(database: TestDatabase, queue: string): Promise<number[]> {
  const { dialect, driver } = database.db;
  const statement = dialect.ledger.applied(database.schema ?? dialect.defaults.schema);
  const rows = await driver.query(statement, { queue });
  return rows.map((row) => Number(row.number));
}

/** Everything an inbox does, once. */
export async function useInbox(db: Database, options: InboxOptions): Promise<Inbox> {
  const clock = testClock();
  const inbox = createInbox(db, { clock, ...options });
  const owner = newOwnerToken();
  const message = (messageId: string) => ({ source: "s", messageId, topic: "t", payload: "p" });
  expect(await inbox.receive(message("1"))).toBe("enqueued");
  expect(await inbox.enqueue([message("1"), message("2"), message("3"), message("4")])).toEqual([
    "duplicate",
    "enqueued",
    "enqueued",
    "enqueued",
  ]);
  expect(await inbox.alreadyProcessed({ source: "s", messageId: "5" })).toBe(false);
  await inbox.markProcessing({ source: "s", messageId: "5" });
  await inbox.markProcessed({ source: "s", messageId: "5" });
  expect(await inbox.alreadyProcessed({ source: "s", messageId: "5" })).toBe(true);
  const claimed = await inbox.claim({ owner });
  expect(claimed).toHaveLength(4);
  await inbox.renew(owner, claimed, 30_000);
  await inbox.ack(owner, [{ source: "s", messageId: claimed[0]!.messageId }]);
  await inbox.abandon(owner, [claimed[1]!]);
  await inbox.fail(owner, [claimed[2]!], "no");
  await inbox.release(owner, [claimed[3]!]);
  await inbox.replay([claimed[2]!]);
  expect((await inbox.list({ state: "Done" })).messages).toHaveLength(2);
  clock.advance(31 * 86_400_000);
  expect((await inbox.purgeDone()).purged).toBe(2);
  await inbox.reapExpired();
  expect((await inbox.stats()).counts).toEqual({ Seen: 0, Processing: 3, Done: 0, Dead: 0 });
  return inbox;
}

/** Everything an outbox does, once. */
export async function useOutbox(db: Database, options: OutboxOptions): Promise<Outbox> {
  const clock = testClock();
  const outbox = createOutbox(db, { clock, ...options });
  const owner = newOwnerToken();
  const message = { topic: "t", payload: "p" };
  await outbox.enqueue(message);
  await outbox.enqueue([message, message]);
  await outbox.transaction((tx) => outbox.enqueue(message, { tx }));
  const claimed = await outbox.claim({ owner });
  expect(claimed).toHaveLength(4);
  await outbox.renew(owner, claimed, 30_000);
  await outbox.ack(owner, [{ id: claimed[0]!.id }]);
  await outbox.abandon(owner, [claimed[1]!]);
  await outbox.fail(owner, [claimed[2]!], "no");
  await outbox.release(owner, [claimed[3]!]);
  await outbox.replay([claimed[2]!]);
  expect((await outbox.list({ state: "Done" })).messages).toHaveLength(1);
  clock.advance(31 * 86_400_000);
  expect((await outbox.purgeDone()).purged).toBe(1);
  await outbox.reapExpired();
  expect((await outbox.stats()).counts).toEqual({ Ready: 3, InProgress: 0, Done: 0, Failed: 0 });
  return outbox;
}

/** Short, so that hostile names with it stay within 40 bytes. */
export const suffix = (): string => randomUUID().slice(0, 4);

/** Removes a schema that a test made beside the suite's own, with all that is in it. */
export async function dropSchema(database: TestDatabase, schema: string): Promise<void> {
  const { name } = database.db.dialect;
  if (name === "sqlite") return; // the file goes as a whole
  if (name === "postgres") {
    await database.raw(`drop schema if exists "${schema.replaceAll('"', '""')}" cascade`);
    return;
  }
  const quoted = (part: string) => `[${part.replaceAll("]", "]]")}]`;
  const literal = schema.replaceAll("'", "''");
  const rows = await database.raw(`select rtrim(o.type) as type, o.name as name
from sys.objects o
inner join sys.schemas s on s.schema_id = o.schema_id
where s.name = N'${literal}' and o.type in ('P', 'IF', 'TF', 'FN', 'V', 'U')`);
  const words: Record<string, string> = {
    P: "procedure",
    IF: "function",
    TF: "function",
    FN: "function",
    V: "view",
    U: "table",
  };
  for (const [type, word] of Object.entries(words)) {
    for (const row of rows.filter((one) => one.type === type)) {
      await database.raw(`drop ${word} ${quoted(schema)}.${quoted(String(row.name))}`);
    }
  }
  await database.raw(`drop schema if exists ${quoted(schema)}`);
}

export interface IndexInfo {
  /** Their names, separated by commas. */
  readonly columns: string;
  readonly unique: boolean;
  /** The condition of a partial index; on SQLite the index's whole text. */
  readonly filter: string;
}

/** The indexes of a table, from the database's own catalogue. */
export async function indexesOf(database: TestDatabase, quotedTable: string): Promise<readonly IndexInfo[]> {
  const table = quotedTable
    .split(".")
    .at(-1)!
    .replaceAll(/["[\]]/g, "");
  const rows = await database.raw(indexQueries(database.schema, table)[database.db.dialect.name]);
  const found = new Map<string, IndexInfo>();
  for (const row of rows) {
    const columns = [found.get(String(row.name))?.columns, String(row.column_name)];
    found.set(String(row.name), {
      columns: columns.filter((name) => name !== undefined).join(","),
      unique: Number(row.is_unique) === 1,
      filter: String(row.filter ?? ""),
    });
  }
  return [...found.values()];
}

/** A row for each column of each index, in order. */
const indexQueries = (schema: string | undefined, table: string) => ({
  postgres: `select c.relname as name, a.attname as column_name, i.indisunique::int as is_unique,
  pg_get_expr(i.indpred, i.indrelid) as filter
from pg_index i
inner join pg_class c on c.oid = i.indexrelid
inner join pg_class t on t.oid = i.indrelid
inner join pg_namespace n on n.oid = t.relnamespace
inner join pg_attribute a on a.attrelid = c.oid
where n.nspname = '${schema}' and t.relname = '${table}'
order by c.relname, a.attnum`,
  sqlite: `select i.name as name, c.name as column_name, i."unique" as is_unique, m.sql as filter
from pragma_index_list('${table}') i
inner join pragma_index_info(i.name) c
left join sqlite_master m on m.type = 'index' and m.name = i.name
order by i.name, c.seqno`,
  sqlserver: `select i.name as name, c.name as column_name, cast(i.is_unique as int) as is_unique, i.filter_definition as filter
from sys.indexes i
inner join sys.index_columns x on x.object_id = i.object_id and x.index_id = i.index_id
inner join sys.columns c on c.object_id = x.object_id and c.column_id = x.column_id
where i.object_id = object_id('[${schema}].[${table}]') and i.index_id > 0
order by i.index_id, x.index_column_id`,
});
