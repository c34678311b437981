import { expect, inject, it, onTestFinished } from "vitest";
import { createSqlInboxStore } from "../../../src/inbox-store/sql-inbox-store.js";
import { migrate } from "../../../src/index.js";
import type { Database } from "../../../src/sql/dialect.js";
import { postgresHarness } from "../../support/postgres-harness.js";

/** The names of the statements that were sent. */
function counted(db: Database): { readonly db: Database; readonly sent: string[] } {
  const sent: string[] = [];
  const query: typeof db.driver.query = (statement, params, options) => {
    sent.push(statement.name);
    return db.driver.query(statement, params, options);
  };
  return { db: { ...db, driver: { ...db.driver, query } }, sent };
}

it("SVC-03 try-begins that come at once share round trips on PostgreSQL, and each key has one winner", async () => {
  const database = await postgresHarness(inject("postgresUrl")).open();
  onTestFinished(() => database.close());
  const schema = database.schema!;
  await migrate(database.db, { schema, outbox: false });
  // two processes, each with batches of its own; the second one meets the keys in the other direction
  const stores = [counted(database.db), counted(database.reopen())];
  const keys = Array.from({ length: 150 }, (_, index) => `key-${index}`);
  const results = await Promise.all(
    stores.flatMap(({ db }, index) => {
      const store = createSqlInboxStore(db, { schema });
      const ordered = index === 0 ? keys : keys.toReversed();
      return [...ordered, ...ordered].map(async (key) => ({ key, ...(await store.tryBegin(key)) }));
    }),
  );

  const winners = results.filter(({ status }) => status === "Acquired").map(({ key }) => key);
  expect(winners.toSorted()).toEqual(keys.toSorted());
  expect(results.filter(({ status }) => status === "Busy")).toHaveLength(3 * keys.length);
  for (const { sent } of stores) {
    expect(sent).toContain("try begin many");
    expect(sent.length).toBeLessThan(keys.length);
  }
});
