import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { createInbox, migrate, newOwnerToken } from "../../src/index.js";
import { postgresDialect } from "../../src/sql/postgres/dialect.js";
import type { TestDatabase } from "../contract/harness.js";
import { postgresHarness } from "../support/postgres-harness.js";

describe("the purge of dead messages on PostgreSQL", () => {
  let test: TestDatabase & { readonly schema: string };
  beforeAll(async () => {
    test = (await postgresHarness(inject("postgresUrl")).open()) as typeof test;
    await migrate(test.db, { schema: test.schema });
  });
  afterAll(() => test.close());

  /** The plan of a batch. */
  async function plan(): Promise<string> {
    const names = postgresDialect.names("inbox", test.schema, "inbox");
    const { purgeDead } = postgresDialect.inbox(names, { blockOnDead: false });
    const values: Readonly<Record<string, string>> = {
      ":rules": `'[{"position":0,"topic_prefix":"a","retention_ms":1},{"position":1,"retention_ms":2}]'`,
      ":shortest_ms": "1",
      ":after_seq": "0",
      ":limit": "500",
      ":now": "null",
    };
    const text = purgeDead.text.replaceAll(/(?<!:):[a-z_]+/g, (name) => values[name]!);
    const rows = await test.raw(`explain ${text}`);
    return rows.map((row) => row["QUERY PLAN"]).join("\n");
  }

  it("ADD-02 reads dead messages by their index, and neither those that wait nor those that are done", async () => {
    const inbox = createInbox(test.db, { schema: test.schema });
    const put = (from: number, count: number) =>
      inbox.enqueue(
        Array.from({ length: count }, (_, index) => ({
          source: "s",
          messageId: String(from + index),
          topic: "t",
          payload: "",
        })),
      );
    const owner = newOwnerToken();
    await put(0, 20);
    await inbox.fail(owner, await inbox.claim({ owner, batchSize: 20 }), "no");
    for (let from = 1_000; from < 4_000; from += 1_000) await put(from, 1_000);
    await test.raw(`analyze "${test.schema}".inbox_messages, "${test.schema}".inbox_state`);
    const text = await plan();
    expect(text).toMatch(/Index (Only )?Scan using inbox_dead on inbox_state/);
    expect(text).not.toMatch(/Seq Scan on inbox_(messages|state|attempts|partition_queue) /);
  });
});
