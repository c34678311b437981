import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { createInbox, createOutbox, migrate } from "../../src/index.js";
import { scriptBatches } from "../support/sqlcmd-script.js";
import { sqlServerHarness } from "../support/sqlserver-harness.js";
import type { TestDatabase } from "./harness.js";
import { newName, useInbox, useOutbox } from "./migration/support.js";
import { isBabelfish } from "./support/database.js";

const url = inject("sqlServerUrl");

/** What only SQL Server has: nested transactions, errors that do not end one, and a script for sqlcmd. */
describe.skipIf(url === "")(
  "SQL Server only (needs ONCEBOX_TEST_MSSQL_URL or Docker)",
  { timeout: 300_000 },
  () => {
    let database: TestDatabase;
    beforeAll(async () => {
      database = await sqlServerHarness(url).open();
      await migrate(database.db, { schema: database.schema! });
    }, 300_000);
    afterAll(() => database?.close());

    /** Calls that fail at their insert, because a value is missing. */
    const failing = [
      ["Outbox_EnqueueMessages", `@id = '${randomUUID()}', @payload = N'{}'`],
      ["Outbox_Enqueue", "@payload = N'{}'"],
      ["Inbox_ReceiveMessages", "@revive = 0, @source = N's', @message_id = N'1', @payload = N'{}'"],
      ["Inbox_Receive", "@source = N's', @message_id = N'1', @payload = N'{}'"],
      [
        "Inbox_Mark",
        "@source = N's', @message_id = null, @status = 3, @error = null, @error_group = null, @blocks = 0",
      ],
      ["Inbox_AlreadyProcessed", "@source = N's', @message_id = null, @hash = null"],
      ["Inbox_TryBegin", "@source = N's', @key = null, @lease_id = null, @lease_ms = 1, @holder = null"],
      ["Inbox_MarkKey", "@source = N's', @key = null"],
    ] as const;

    it.each(failing)(
      "ADD-06 MID-05 %s that fails in a caller's transaction leaves its depth unchanged, so that its commit commits",
      async (procedure, values) => {
        const options = { schema: database.schema! };
        const [inbox, outbox] = [createInbox(database.db, options), createOutbox(database.db, options)];
        const transaction = await database.begin!();
        const before = (await outbox.stats()).counts.Ready;
        await outbox.enqueue({ topic: "t", payload: "{}" }, { tx: transaction.tx });
        await expect(transaction.run(`exec [${database.schema}].[${procedure}] ${values}`)).rejects.toThrow(
          /null|topic must have/i,
        );
        await transaction.run("if @@trancount <> 1 throw 50001, N'another level', 1;");
        await transaction.commit();
        expect((await outbox.stats()).counts.Ready).toBe(before + 1);
        expect(await inbox.list({ source: "s" })).toMatchObject({ messages: [] });
      },
    );

    it("IBX-102 OBX-080 a transaction that a failed statement left open is rolled back, and the next call is committed", async (test) => {
      test.skip(
        await isBabelfish(database),
        "Babelfish does not report to drivers the transactions that a batch begins",
      );
      const options = { schema: database.schema! };
      const inbox = createInbox(database.db, options);
      const { driver } = database.reopen!();
      const text = `set xact_abort off; begin transaction;
exec [${options.schema}].[Inbox_AlreadyProcessed] @source = N'left', @message_id = N'open', @hash = null;
raiserror(N'impossible', 16, 1);`;
      await expect(driver.query({ name: "fails", text, unprepared: true }, {})).rejects.toThrow("impossible");
      const [row] = await driver.query({ name: "level", text: "select @@trancount as deep" }, {});
      expect(row).toEqual({ deep: 0 });
      expect(await inbox.list({ source: "left" })).toMatchObject({ messages: [] });
    });

    it("IBX-117 OBX-094 infra/sql/sqlserver.sql, run twice under other names, is what migrate would create", async () => {
      const { db, raw } = database;
      const names = { schema: database.schema!, inbox: newName(), outbox: newName() };
      for (const _ of ["first", "again"]) for (const batch of scriptBatches(names)) await raw(batch);

      expect(await migrate(db, names)).toMatchObject({ applied: [] });
      await useOutbox(db, { schema: names.schema, table: names.outbox });
      await useInbox(db, { schema: names.schema, table: names.inbox });
    });
  },
);
