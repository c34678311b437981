import { expect, it } from "vitest";
import { createInbox, migrate, newOwnerToken } from "../../src/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

it("MID-10 SQLite uses no row number twice: what comes after a purge is numbered onwards and claimed", async () => {
  const db = openSqlite({ file: ":memory:" });
  await migrate(db, { outbox: false });
  let now = Date.UTC(2030, 0, 1);
  const inbox = createInbox(db, { clock: () => new Date(now) });
  const message = (messageId: string) => ({ source: "s", messageId, topic: "t", payload: "{}" });
  const owner = newOwnerToken();
  await inbox.enqueue([message("1"), message("2")]);
  await inbox.ack(owner, await inbox.claim({ owner }));
  now += 60_000;
  expect((await inbox.purgeDone({ retentionMs: 1 })).purged).toBe(2);
  await inbox.receive(message("3"));
  await inbox.enqueue([message("4"), message("5")]);
  const claimed = await inbox.claim({ owner });
  expect(claimed.map(({ messageId, seq }) => [messageId, seq > 2])).toEqual([
    ["3", true],
    ["4", true],
    ["5", true],
  ]);
  await db.close();
});
