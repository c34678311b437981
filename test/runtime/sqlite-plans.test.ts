import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { migrate } from "../../src/index.js";
import type { SqlStatement } from "../../src/sql/driver.js";
import { toAnonymous } from "../../src/sql/named-parameters.js";
import { loadSqlite, type SqliteHandle } from "../../src/sql/sqlite/client.js";
import { openSqlite, sqliteDialect } from "../../src/sql/sqlite/index.js";

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
  const plan = (text: string) =>
    (handle.prepare(`explain query plan ${toAnonymous(text).text}`).all() as { detail: string }[]).map(
      ({ detail }) => detail,
    );
  const textsOf = ({ constants, shortcut = [], steps, whole, keyed }: SqlStatement): readonly string[] => [
    ...(constants === undefined ? [] : [constants]),
    ...shortcut,
    ...steps,
    ...(whole === undefined ? [] : textsOf(whole)),
    ...(keyed === undefined ? [] : textsOf(keyed)),
  ];
  /** By an alias or by name; the tables of leases and the cursor have few rows. */
  const readsAll = (detail: string) => /^SCAN (m|s|Inbox|InboxState)$/.test(detail);
  /** What SQLite says of a smallest value without an index for it. */
  const readsAllForOne = (detail: string) => /^SEARCH (s|InboxState)$/.test(detail);

  it("ADD-02 a page of messages is read in their order and ends with the page: only leased ones are sorted", () => {
    const details = inbox.list.steps.flatMap(plan);
    expect(details.filter((detail) => detail.startsWith("USE TEMP B-TREE"))).toHaveLength(1);
    expect(details.filter(readsAll)).toEqual([]);
  });

  it("ADD-02 the age of the oldest due message is looked up where due ones are, whatever else is kept", () => {
    const details = inbox.oldestDue.steps.flatMap(plan);
    expect(details).toContainEqual(expect.stringContaining("InboxReady (visible_at<?)"));
    expect(details).toContainEqual(expect.stringContaining("InboxHeld (visible_at<?)"));
    expect(details.filter(readsAllForOne)).toEqual([]);
  });

  it("IBX-032 nothing that is done for each message or batch reads all messages", () => {
    const { stats, ...others } = inbox;
    for (const statement of Object.values(others)) {
      const details = textsOf(statement).flatMap(plan);
      expect([statement.name, details.filter(readsAll)]).toEqual([statement.name, []]);
    }
  });
});
