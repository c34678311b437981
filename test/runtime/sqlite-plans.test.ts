import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { migrate } from "../../src/index.js";
import type { SqlStatement } from "../../src/sql/driver.js";
import { toAnonymous } from "../../src/sql/named-parameters.js";
import { loadSqlite, type SqliteHandle } from "../../src/sql/sqlite/client.js";
import type { SteppedStatement } from "../../src/sql/sqlite/connection.js";
import { sqliteDialect } from "../../src/sql/sqlite/dialect.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

describe("how SQLite reads a large queue", () => {
  let folder: string;
  let handle: SqliteHandle;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "oncebox-plans-"));
    const file = join(folder, "app.db");
    const db = openSqlite({ file });
    await migrate(db);
    await db.close();
    handle = new (await loadSqlite())(file);
  });
  afterAll(async () => {
    handle.close();
    await rm(folder, { recursive: true, force: true });
  });

  const options = { reviveDead: false, blockOnDead: false };
  const inbox = sqliteDialect.inbox(sqliteDialect.names("inbox", "", "Inbox"), options);
  const outbox = sqliteDialect.outbox(sqliteDialect.names("outbox", "", "Outbox"), options);
  const plan = (text: string) =>
    (handle.prepare(`explain query plan ${toAnonymous(text).text}`).all() as { detail: string }[]).map(
      ({ detail }) => detail,
    );
  const textsOf = (statement: SqlStatement) => (statement as SteppedStatement).steps.map(({ text }) => text);
  /** By an alias or by name. */
  const readsAll = (detail: string) =>
    /^SCAN (m|s|d|(In|Out)box(Messages|State|Done|Keys))( LEFT-JOIN)?$/.test(detail);
  /** What SQLite says of a smallest value without an index for it. */
  const readsAllForOne = (detail: string) => /^SEARCH (s|InboxState)$/.test(detail);

  it("ADD-02 a page of messages is read in their order and ends with the page: nothing is sorted", () => {
    const details = textsOf(inbox.list).flatMap(plan);
    expect(details.filter((detail) => detail.startsWith("USE TEMP B-TREE"))).toEqual([]);
    expect(details.filter(readsAll)).toEqual([]);
  });

  it("ADD-02 the age of the oldest due message is looked up where due ones are, whatever else is kept", () => {
    const details = textsOf(inbox.oldestDue).flatMap(plan);
    expect(details).toContainEqual(expect.stringContaining("InboxReady (visible_at<?)"));
    expect(details.filter(readsAllForOne)).toEqual([]);
  });

  it("IBX-032 nothing that is done for each message or batch reads all messages", () => {
    const names = sqliteDialect.names("inbox", "", "Inbox");
    const all = [
      ...Object.values({ ...inbox, ...sqliteDialect.receiving(names, { ...options, reviveDead: true }) }),
      ...Object.values({ ...outbox, ...sqliteDialect.keys(names) }),
    ];
    const readsUnfinished = ["stats", "reap"]; // by a timer
    for (const statement of all.filter(({ name }) => !readsUnfinished.includes(name))) {
      const details = textsOf(statement).flatMap(plan);
      expect([statement.name, details.filter(readsAll)]).toEqual([statement.name, []]);
    }
  });

  it("ADD-02 dead messages past their retention are found by the index of dead messages, in the order of their numbers", () => {
    const details = textsOf(inbox.purgeDead).flatMap(plan);
    const byIndex = details.filter((detail) => /INDEX InboxDead \(seq>\?/.test(detail));
    expect(byIndex).toHaveLength(2); // the window, and what is deleted of it
    expect(details.filter(readsAll)).toEqual([]);
    expect(details.filter((detail) => /TEMP B-TREE/.test(detail))).toHaveLength(1); // the retentions, in their order
  });

  it("MSG-04 dead messages past their expiry are found by the index of dead messages, whatever else is kept", () => {
    const details = textsOf(outbox.expireDead).flatMap(plan);
    expect(details).toContainEqual(expect.stringContaining("INDEX OutboxDead"));
    expect(details.filter((detail) => /^SCAN (m|s|Outbox|OutboxState)$/.test(detail))).toEqual([]);
  });

  it("IBX-032 no limit is a bare parameter: SQLite would compile the text again for every execution", () => {
    for (const statement of Object.values(inbox))
      for (const text of textsOf(statement)) expect(text).not.toMatch(/\blimit :/);
  });
});
