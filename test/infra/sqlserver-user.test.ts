import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { createInbox, createOutbox, migrate, newOwnerToken } from "../../src/index.js";
import type { SqlStatement } from "../../src/sql/driver.js";
import { openSqlServer, sqlServerDialect } from "../../src/sql/sqlserver/index.js";
import type { TestDatabase } from "../../src/testing/index.js";
import { sqlServerHarness } from "../support/sqlserver-harness.js";
import { root } from "./aws-stack.js";

const url = inject("sqlServerUrl");
const script = () => readFile(join(root, "infra/sql/users-sqlserver.sql"), "utf8");

describe("the functions' user on SQL Server, as it is written", () => {
  it("FUN-10 may execute every procedure that the package calls, and is granted nothing else", async () => {
    const { names, inbox, outbox, defaults } = sqlServerDialect;
    const options = { reviveDead: false, deadBlocks: false };
    const statements = [
      inbox(names("inbox", defaults.schema, defaults.inbox), options),
      outbox(names("outbox", defaults.schema, defaults.outbox), options),
    ].flatMap((all) => Object.values(all) as SqlStatement[]);
    const called = statements.flatMap(({ steps }) =>
      steps.flatMap((sql) => [...sql.matchAll(/\bexec (\[\w+\]\.\[\w+\])/g)].map(([, name]) => name!)),
    );
    const grants = [...(await script()).matchAll(/^grant (.+) on (\S+) to \[\$\(FunctionsUser\)\];$/gm)];
    expect(grants.every(([, right]) => right === "execute")).toBe(true);
    expect(grants.map(([, , name]) => name).sort()).toEqual([...new Set(called)].sort());
    expect((await script()).match(/\bgrant\b/g)!.length).toBeGreaterThanOrEqual(grants.length);
    expect((await script()).replace(/^--.*$/gm, "")).not.toMatch(/sp_addrolemember|alter role|control|db_/i);
  });
});

describe.skipIf(url === "")("the functions' user on SQL Server", () => {
  const login = `functions_${randomUUID().slice(0, 8)}`;
  const password = `Pw-${randomUUID()}`;
  let admin: TestDatabase;

  beforeAll(async () => {
    admin = await sqlServerHarness(url).open();
    await migrate(admin.db, { schema: admin.schema! });
    await admin.raw(`create login [${login}] with password = '${password}'`);
    const text = (await script())
      .replaceAll("$(FunctionsUser)", login)
      .replaceAll("[infra]", `[${admin.schema}]`);
    for (const _ of ["once", "again"]) await admin.raw(text);
  });
  afterAll(async () => {
    await admin?.raw(`drop user if exists [${login}]`);
    await admin?.raw(`drop login [${login}]`);
    await admin?.close();
  });

  it("FUN-10 goes through a whole cycle by procedures, and cannot look at a table", async () => {
    const target = new URL(url);
    target.username = login;
    target.password = password;
    const db = openSqlServer({ url: target.href, maxConnections: 2 });
    try {
      const schema = admin.schema!;
      const owner = newOwnerToken();
      const inbox = createInbox(db, { schema });
      const outbox = createOutbox(db, { schema });
      const message = { source: "s", topic: "t", payload: "{}" };
      expect(await inbox.receive({ ...message, messageId: "1" })).toBe("enqueued");
      await inbox.enqueue([{ ...message, messageId: "2", partitionKey: "k" }]);
      const claimed = await inbox.claim({ owner });
      expect(claimed).toHaveLength(2);
      expect((await inbox.ack(owner, claimed)).changed).toHaveLength(2);
      await outbox.enqueue({ topic: "t", payload: "{}" });
      expect((await outbox.ack(owner, await outbox.claim({ owner }))).changed).toHaveLength(1);
      await inbox.reapExpired();
      await outbox.purgeDone({ retentionMs: 1 });
      expect((await inbox.stats()).counts.Done).toBe(2);
      const look = { name: "look", steps: [`select * from [${schema}].[Inbox]`], unprepared: true };
      await expect(db.driver.query(look, {})).rejects.toThrow(/permission/i);
    } finally {
      await db.close();
    }
  });
});
