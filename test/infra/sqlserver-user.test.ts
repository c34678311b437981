import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { operatorsOf } from "../../src/admin/index.js";
import { openJobs } from "../../src/app/jobs.js";
import { createMessageTables, grantUsers } from "../../src/app/prepare-databases.js";
import { readEnvironment } from "../../src/config/environment.js";
import { createSqlInboxStore } from "../../src/inbox-store/sql-inbox-store.js";
import {
  createInbox,
  createOutbox,
  type Database,
  type Inbox,
  migrate,
  newOwnerToken,
  PermissionDeniedError,
  timeBudget,
} from "../../src/index.js";
import { triggerMessage } from "../../src/middleware/consume.js";
import type { SqlStatement } from "../../src/sql/driver.js";
import { sqlServerDialect } from "../../src/sql/sqlserver/dialect.js";
import { openSqlServer } from "../../src/sql/sqlserver/index.js";
import { sqlServerOperators } from "../../src/sql/sqlserver/operators.js";
import { poll, pollStatement } from "../../src/tenants/connections/tenant-stores.js";
import { type TestDatabase, testClock } from "../contract/harness.js";
import { isBabelfish } from "../contract/support/database.js";
import { startAdmin } from "../support/admin/start-admin.js";
import { withFunctionRights } from "../support/babelfish-schema.js";
import { dropLogin } from "../support/drop-login.js";
import { root } from "../support/markdown.js";
import { patient, sqlServerHarness, withClock } from "../support/sqlserver-harness.js";
import { expectControls, expectInboxService, expectService } from "./functions-user.js";

const url = inject("sqlServerUrl");
const script = () => readFile(join(root, "infra/sql/users-sqlserver.sql"), "utf8");

const { names, defaults } = sqlServerDialect;
const inboxNames = names("inbox", defaults.schema, defaults.inbox);
const outboxNames = names("outbox", defaults.schema, defaults.outbox);

/** The procedures that the statements call, such as `[infra].[Inbox_Claim]`. */
const proceduresOf = (statements: readonly SqlStatement[]): readonly string[] =>
  statements.flatMap(({ text }) =>
    [...text.matchAll(/\bexec (?:@\w+ = )?(\[\w+\]\.\[\w+\])/g)].map(([, name]) => name!),
  );

/** The procedures that any statement of the package calls, except for those of operators. */
function calledProcedures(): readonly string[] {
  const { receiving, inbox, keys, outbox, ackAndEnqueue, pollStatement } = sqlServerDialect;
  const { reads } = sqlServerOperators;
  const options = { reviveDead: false, blockOnDead: false };
  const statements = [
    receiving(inboxNames, options),
    inbox(inboxNames, options),
    keys(inboxNames),
    outbox(outboxNames, options),
    reads(inboxNames),
    reads(outboxNames),
    [ackAndEnqueue!(inboxNames, outboxNames), pollStatement!(inboxNames, outboxNames)],
  ].flatMap((all) => Object.values(all) as SqlStatement[]);
  return proceduresOf(statements);
}

/** A service calls the same procedures of its own, but for those of keys. The functions may do so in its name. */
function serviceProcedures(): readonly string[] {
  const ofKeys = proceduresOf(Object.values(sqlServerDialect.keys(inboxNames)) as SqlStatement[]);
  return calledProcedures()
    .filter((name) => !ofKeys.includes(name))
    .map((name) => name.replace(/\[(In|Out)box_/, (text) => text.toLowerCase().replace("[", "[messages_")));
}

/** The procedures that only operators call. */
const operatorProcedures = (): readonly string[] =>
  [inboxNames, outboxNames]
    .flatMap((n) => proceduresOf(Object.values(sqlServerOperators.changes(n)) as SqlStatement[]))
    .filter((name) => !name.includes("_Controls"));

/** The tables that operators' reads name. */
/** And the views, which people read by hand. */
const operatorTables = (): readonly string[] =>
  [inboxNames, outboxNames].flatMap((n) => {
    const statements = [sqlServerOperators.changes(n), sqlServerOperators.reads(n)];
    const texts = statements.flatMap((all) => Object.values(all) as SqlStatement[]);
    const tables = texts.flatMap(({ text }) =>
      [...text.matchAll(/(?:from|join) (\[\w+\]\.\[\w+\])/g)].map(([, name]) => name!),
    );
    return [n.view, ...tables];
  });

describe("the functions' user on SQL Server, as it is written", () => {
  it("FUN-10 may execute every procedure that the package calls, and operators may read the tables that they look at, and nothing else is granted", async () => {
    const called = calledProcedures();
    const sql = (await script()).replace(/^--.*$/gm, "");
    const grants = [...sql.matchAll(/^ *grant execute on (\S+) to \[(\w+)\];$/gm)];
    const selects = [...sql.matchAll(/^grant select on (\S+) to \[oncebox_operators\];$/gm)];
    expect(sql.match(/\bgrant\b/g)).toHaveLength(grants.length + selects.length);
    expect(selects.map(([, name]) => name).sort()).toEqual([...new Set(operatorTables())].sort());
    const grantedTo = (role: string) => grants.filter(([, , to]) => to === role).map(([, name]) => name);
    const ofService = serviceProcedures();
    expect(grantedTo("oncebox_messaging").sort()).toEqual([...new Set(ofService)].sort());
    expect(grantedTo("oncebox_functions").sort()).toEqual([...new Set([...called, ...ofService])].sort());
    expect(grantedTo("oncebox_operators")).toEqual(expect.arrayContaining([...operatorProcedures()]));
    expect(called.filter((name) => operatorProcedures().includes(name))).toEqual([]);
    const { receiving, keys } = sqlServerDialect;
    const statementsOf = (all: object) => proceduresOf(Object.values(all) as SqlStatement[]);
    const { mark, ...receive } = receiving(inboxNames, { reviveDead: false, blockOnDead: false });
    const received = statementsOf(receive);
    expect(proceduresOf([mark])).toEqual(["[infra].[Inbox_Mark]"]);
    expect(received).not.toContain("[infra].[Inbox_Mark]");
    expect(grantedTo("oncebox_receivers")).toEqual([...new Set(received)]);
    const ofKeys = statementsOf(keys(inboxNames)).filter((name) => !name.includes("Purge")); // the worker cleans up
    expect(grantedTo("oncebox_service")).toEqual([...new Set(ofKeys)]);
    expect(grantedTo("oncebox_producers")).toEqual(["[infra].[Outbox_Enqueue]", "[infra].[Inbox_Receive]"]);
    expect(new Set(grants.map(([, , to]) => to)).size).toBe(6);
    // The one role that the user is in is a variable of the script, and nothing else gives a right.
    expect(sql.match(/alter role.*/gi)).toEqual(["alter role [$(Role)] add member [$(FunctionsUser)];"]);
    expect(sql).not.toMatch(/sp_addrolemember|\bcontrol\b|db_/i);
  });

  it("FUN-10 on Azure a user is made from its client id, and the directory is asked only without one", async () => {
    const sql = await script();
    const forms = [...sql.matchAll(/^ {2}((?:else )?(?:if .*)?|else)\n {4}set @create \+= N'([\w ]+)/gm)];
    expect(forms.map(([, when, form]) => [when, form!.trim()])).toEqual([
      ["if @edition in (5, 12) and @client is not null", "with sid"],
      [
        "else if @edition in (5, 12) or (@edition = 8 and suser_id(N'$(FunctionsUser)') is null)",
        "from external provider",
      ],
      ["else", "for login"],
    ]);
    expect(sql).toContain("type = E'");
  });
});

describe.skipIf(url === "")("the functions' user on SQL Server", () => {
  const login = `functions_${randomUUID().slice(0, 8)}`;
  const password = `Pw-${randomUUID()}`;
  const users = [
    [login, "oncebox_functions"],
    [`${login}_webhook`, "oncebox_receivers"],
    [`${login}_inbox_service`, "oncebox_service"],
    [`${login}_alice`, "oncebox_operators"],
    [`${login}_billing`, "oncebox_producers"],
    [`${login}_messages`, "oncebox_messaging"],
  ] as const;
  let admin: TestDatabase;
  let own: URL;
  let db: Database;
  /** Tables with names of their own, beside those with the default names. */
  const otherNames = { inbox: "Incoming", outbox: "Outgoing" };

  beforeAll(async () => {
    admin = await sqlServerHarness(url).open();
    await migrate(admin.db, { schema: admin.schema! });
    const isStandIn = await isBabelfish(admin);
    await admin.raw(`create login [${login}] with password = '${password}'`);
    for (const [user] of users.slice(1)) {
      await admin.raw(`create login [${user}] with password = '${password}'`);
    }
    // Roles belong to the database, which is not this test's own.
    const fitted = (text: string) => (isStandIn ? withFunctionRights(text) : text);
    const sqlserver = async () => fitted(await script()).replaceAll(/oncebox_(?!operations)/g, `${login}_`);
    const scripts = { sqlserver, postgres: sqlserver };
    const made = users.map(([name, role]) => ({
      name,
      role: role.replace("oncebox_", `${login}_`) as typeof role,
      clientId: randomUUID(),
      objectId: randomUUID(),
    }));
    await migrate(admin.db, { schema: admin.schema!, ...otherNames });
    await createMessageTables(admin.db, { schema: admin.schema! });
    await grantUsers(admin.db, { schema: admin.schema!, ...otherNames }, made, scripts);
    for (const _ of ["once", "again"]) {
      await grantUsers(admin.db, { schema: admin.schema! }, made, scripts); // as the migration function does
    }
    own = new URL(url);
    own.username = login;
    own.password = password;
    db = withClock(openSqlServer({ url: own.href, maxConnections: 2, config: patient }));
  });
  afterAll(async () => {
    await db?.close();
    await admin?.close(); // with what the user has rights on
    const roles = ["receivers", "functions", "service", "producers", "messaging", "operators"];
    const drops = roles.map((role) => `drop role if exists [${login}_${role}]`);
    for (const [index, [user]] of users.entries())
      await dropLogin(url, user, index === users.length - 1 ? drops : []);
  });

  const run = (on: Database, sql: string) =>
    on.driver.query({ name: "script", text: sql, unprepared: true }, {});

  const objects = async (...types: readonly string[]) =>
    (
      await admin.raw(`select o.name as name from sys.objects o
inner join sys.schemas s on s.schema_id = o.schema_id
where s.name = '${admin.schema}' and rtrim(o.type) in (${types.map((type) => `'${type}'`).join(", ")})`)
    ).map(({ name }) => `[${admin.schema}].[${String(name)}]`);

  /**
   * In SQL Server a procedure may use everything that its owner owns, whichever user calls it (ownership chaining).
   * Babelfish checks the caller's own rights instead. There the tests after this show that no procedure was forgotten, and
   * only the test before it shows that no table is accessible.
   */
  async function grantWhatOwnershipGives(): Promise<void> {
    await grantTables(login);
    const called = [...calledProcedures(), ...serviceProcedures()].map((name) =>
      name.replace("[infra]", `[${admin.schema}]`).toLowerCase(),
    );
    const inner = (await objects("P")).filter((name) => !called.includes(name.toLowerCase()));
    for (const name of [...inner, ...(await objects("FN"))]) {
      for (const [user] of users) await admin.raw(`grant execute on ${name} to [${user}]`);
    }
  }

  async function grantTables(to: string): Promise<void> {
    for (const table of await objects("U")) {
      await admin.raw(`grant select, insert, update, delete on ${table} to [${to}]`);
    }
    for (const name of await objects("IF", "TF", "V")) await admin.raw(`grant select on ${name} to [${to}]`);
  }

  it("FUN-10 can do nothing else: no table can be read or written, no procedure changed, nothing made", async () => {
    const { schema } = admin;
    const tables = await objects("U");
    expect(tables.length).toBeGreaterThan(6);
    for (const sql of [
      ...tables.flatMap((table) => [`select * from ${table}`, `delete from ${table}`]),
      `exec [${schema}].[Inbox_Discard] @items = N'[1]'`,
      `exec [${schema}].[Inbox_Archive] @items = N'[1]', @who = N'x', @resolution = null`,
      `exec [${schema}].[Outbox_PutControl] @scope = N'queue', @name = N'', @paused = 1, @per_second = null, @who = N'x'`,
      `create table [${schema}].[more] (n int)`,
      `exec('create procedure [${schema}].[more] as return 0')`,
      `exec('alter procedure [${schema}].[Inbox_Claim] as return 0')`,
      `drop table [${schema}].[InboxMessages]`,
      `drop procedure [${schema}].[Inbox_Claim]`,
      `grant select on [${schema}].[InboxMessages] to [${login}]`,
      `create login [${login}_2] with password = '${password}'`,
    ]) {
      await expect(run(db, sql), sql).rejects.toThrow(/permission|must be owner/i);
    }
    if (await isBabelfish(admin)) await grantWhatOwnershipGives();
  });

  it("FUN-10 does all that the functions do: webhook and queue to clean-up", async () => {
    const sent: string[] = [];
    const app = await openJobs(
      {
        database: () => db,
        schema: admin.schema!,
        handlers: {
          paid: ({ payload, messageId }) => ({
            topic: "receipt",
            payload,
            partitionKey: "p",
            naturalKey: messageId,
          }),
        },
        consumer: {
          subscriber: "orders",
          handle: ({ messageId, payload }) => ({ topic: "receipt", payload, correlationId: messageId }),
        },
        publishers: { receipt: ({ correlationId }) => void sent.push(correlationId!) },
        retentionMs: 1,
        deadRetentionMs: 86_400_000,
      },
      { environment: await readEnvironment({ ONCEBOX_LOG_LEVEL: "silent" }) },
    );
    const message = { source: "s", topic: "paid", payload: "{}" };
    expect(await app.inbox.receive({ ...message, messageId: "1" })).toBe("enqueued");
    expect(await app.inbox.receive({ ...message, messageId: "1" })).toBe("duplicate");
    await app.inbox.enqueue(
      ["2", "3"].map((messageId) => ({ ...message, messageId, partitionKey: "customer" })),
    );
    const queued = { topic: "order", payload: "{}", headers: null, correlationId: null, partitionKey: null };
    for (const _ of ["once", "again"])
      await app.consume!(triggerMessage({ ...queued, messageId: "4", deliveries: 1 }));
    await app.outbox.enqueue([
      { topic: "receipt", payload: "{}", partitionKey: "customer", correlationId: "0" },
    ]);
    expect(await app.dispatch(timeBudget(120_000), { wokenUp: true })).toMatchObject({
      inbox: { acked: 3 },
      outbox: { acked: 5 },
    });
    expect(sent.sort()).toEqual(["0", "1", "2", "3", "4"]);
    const stores = { db, pollStatement: pollStatement(db.dialect, { schema: admin.schema }) };
    expect(await poll(stores, 60_000)).toEqual({ inbox: false, outbox: false });
    expect(await app.reap(timeBudget(60_000))).toMatchObject({ inbox: { done: 0 } });
    expect(await app.cleanup(timeBudget(60_000))).toMatchObject({ inbox: { done: 4 }, outbox: { done: 5 } });
  });

  it("FUN-10 can also settle by hand, replay, mark and count", async () => {
    const clock = testClock();
    const owner = newOwnerToken();
    const options = { clock, schema: admin.schema! };
    const [inbox, outbox] = [createInbox(db, options), createOutbox(db, options)];
    const incoming = (messageId: string) => ({ source: "hand", messageId, topic: "t", payload: "{}" });
    await inbox.enqueue(["a", "b"].map((id) => ({ ...incoming(id), partitionKey: "k" })));
    await inbox.enqueue(["1", "2", "3"].map(incoming));
    await outbox.enqueue(["1", "2"].map((payload) => ({ topic: "t", payload })));
    await inbox.markProcessing({ source: "hand", messageId: "seen" });
    await inbox.markProcessed({ source: "hand", messageId: "seen" });
    await inbox.markDead({ source: "hand", messageId: "buried" }, "by hand");
    const claimed = await inbox.claim({ owner });
    expect(claimed.map(({ messageId }) => messageId).sort()).toEqual(["1", "2", "3", "a"]);
    await inbox.renew(owner, claimed, 60_000);
    await inbox.abandon(owner, [claimed[0]!], { error: "503" });
    await inbox.fail(owner, [claimed[1]!], "410");
    await inbox.release(owner, [claimed[2]!]);
    clock.advance(120_000);
    expect((await inbox.reapExpired()).reaped).toBe(1);
    expect((await inbox.replay([claimed[1]!])).changed).toHaveLength(1);
    expect((await inbox.list({ state: "Dead" })).messages).toHaveLength(1);
    const out = await outbox.claim({ owner });
    await outbox.ack(owner, [out[0]!]);
    await outbox.fail(owner, [out[1]!], "410");
    expect((await outbox.replay([out[1]!])).changed).toHaveLength(1);
    expect((await inbox.stats()).counts.Dead).toBe(1);
    expect(await inbox.oldestDueAgeMs()).toBeGreaterThan(0);
  });

  const as = async (user: string, work: (db: Database) => Promise<void>) => {
    const theirs = new URL(own);
    theirs.username = user;
    const opened = withClock(openSqlServer({ url: theirs.href, maxConnections: 1, config: patient }));
    try {
      await work(opened);
    } finally {
      await opened.close();
    }
  };
  const denied = /permission/i;

  it("ADD-26 a producer enqueues and receives by two procedures, and can read, claim, mark and delete nothing", async () => {
    const { schema } = admin;
    await as(users[4][0], async (producing) => {
      const options = { schema: schema! };
      const [inbox, outbox] = [createInbox(producing, options), createOutbox(producing, options)];
      const key = { source: "erp", messageId: "produced" };
      for (const table of await objects("U")) {
        await expect(run(producing, `select * from ${table}`), table).rejects.toThrow(denied);
        await expect(run(producing, `delete from ${table}`), table).rejects.toThrow(denied);
      }
      await expect(outbox.claim({ owner: newOwnerToken() })).rejects.toThrow(denied);
      await expect(outbox.purgeDone({ retentionMs: 1 })).rejects.toThrow(denied);
      await expect(inbox.get(key)).rejects.toThrow(denied);
      await expect(inbox.markDead(key, "no")).rejects.toThrow(denied);
      // The procedures of oncebox itself take many messages, rewrite known ones and believe a time.
      await expect(outbox.enqueue({ topic: "produced", payload: "{}" })).rejects.toThrow(denied);
      await expect(inbox.receive({ ...key, topic: "t", payload: "rewritten" })).rejects.toThrow(denied);
      const named = "@source = N'erp', @message_id = N'produced', @topic = N't', @payload = N'{}'";
      for (const more of ["@revive = 1", "@items = N'[]'", "@error = N'buried'"]) {
        const call = (name: string) => run(producing, `exec [${schema}].[${name}] ${named}, ${more}`);
        await expect(call("Inbox_ReceiveMessages"), more).rejects.toThrow(denied);
        await expect(call("Inbox_Receive"), more).rejects.toThrow(/parameter/i);
      }
      for (const more of ["@items = N'[]'", "@handled = N'[]'", "@own = 1"]) {
        const call = `exec [${schema}].[Outbox_Enqueue] @topic = N'produced', @payload = N'{}', ${more}`;
        await expect(run(producing, call), more).rejects.toThrow(/parameter/i);
      }
      if (await isBabelfish(admin)) {
        await grantTables(users[4][0]);
        for (const inner of ["Outbox_EnqueueMessages", "Inbox_ReceiveMessages"])
          await admin.raw(`grant execute on [${schema}].[${inner}] to [${users[4][0]}]`);
      }
      const enqueue = `declare @id uniqueidentifier;
exec [${schema}].[Outbox_Enqueue] @topic = N'produced', @payload = N'{}', @partition_key = N'k', @natural_key = N'n', @id = @id output;
select @id as id;`;
      const [first] = await run(producing, enqueue);
      expect(first).toEqual({ id: expect.stringMatching(/^[0-9a-f-]{36}$/i) });
      expect(await run(producing, enqueue)).toEqual([first]);
      const receive = `exec [${schema}].[Inbox_Receive] @source = N'erp', @message_id = N'produced', @topic = N't', @payload = N'{}'`;
      for (const outcome of ["enqueued", "duplicate"])
        expect(await run(producing, receive)).toMatchObject([{ outcome }]);
    });
    const listed = await createOutbox(admin.db, { schema: schema! }).list({ topic: "produced" });
    expect(listed.messages).toMatchObject([{ partitionKey: "k", naturalKey: "n" }]);
  });

  it("FUN-08 FUN-10 a receiver stores webhooks, also with parts that are no events, and can mark, read, claim and send nothing", async () => {
    await as(users[1][0], async (receiving) => {
      if (await isBabelfish(admin)) await grantTables(users[1][0]);
      const options = { schema: admin.schema! };
      const [inbox, outbox] = [createInbox(receiving, options), createOutbox(receiving, options)];
      const message = { source: "webhook", messageId: "only-received", topic: "t", payload: "{}" };
      expect(await inbox.receive(message)).toBe("enqueued");
      expect(await inbox.receive(message)).toBe("duplicate");
      const noEvent = { ...message, messageId: "no-event", dead: "no event" };
      expect(await inbox.enqueue([{ ...message, messageId: "event" }, noEvent])).toEqual([
        "enqueued",
        "dead",
      ]);
      for (const mark of [inbox.markProcessing, inbox.markProcessed, inbox.markDead])
        await expect(mark(message)).rejects.toThrow(denied);
      await expect(inbox.list({ state: "Seen" })).rejects.toThrow(denied);
      await expect(inbox.claim({ owner: newOwnerToken() })).rejects.toThrow(denied);
      await expect(inbox.purgeDone({ retentionMs: 1 })).rejects.toThrow(denied);
      await expect(outbox.enqueue({ topic: "t", payload: "{}" })).rejects.toThrow(denied);
      await expect(createSqlInboxStore(receiving, options).tryBegin("k")).rejects.toThrow(denied);
    });
  });

  it("ADD-02 FUN-10 the diagnostics API says what a database user may not do", async () => {
    await as(users[1][0], async (receiving) => {
      const options = { schema: admin.schema! };
      const stores = { inbox: createInbox(receiving, options), outbox: createOutbox(receiving, options) };
      const api = await startAdmin({ stores });
      try {
        const { status, json } = await api.get("inbox/messages");
        expect(status).toBe(503);
        expect(json.error.message).toMatch(
          /Permission denied.*"list" on the inbox "Inbox".*users-sqlserver\.sql/,
        );
        expect(json.error.message).not.toContain(users[1][0]);
      } finally {
        await api.close();
      }
      await expect(stores.inbox.list()).rejects.toBeInstanceOf(PermissionDeniedError);
    });
  });

  it("ADD-17 FUN-10 keeps to the pauses and limits of operators", async () => {
    const options = { schema: admin.schema! };
    const [outbox, operated] = [createOutbox(db, options), createOutbox(admin.db, options)];
    await expectControls(outbox, operated);
  });

  it("FUN-10 SVC-08 SVC-10 does all that the inbox service does: lease, mark, release, report, clean up", async () => {
    const clock = testClock();
    await expectInboxService(createSqlInboxStore(db, { clock, schema: admin.schema! }), clock);
  });

  it("FUN-10 SVC-07 the inbox service leases and marks keys, and reads no message", async () => {
    await as(users[2][0], async (serving) => {
      if (await isBabelfish(admin)) await grantTables(users[2][0]);
      const options = { schema: admin.schema! };
      const store = createSqlInboxStore(serving, options);
      const begun = await store.tryBegin("served");
      if (begun.status !== "Acquired") throw new Error(begun.status);
      expect(await store.renew("served", begun.leaseId, 60_000)).toMatchObject({ status: "Renewed" });
      expect(await store.finish("served", begun.leaseId)).toEqual({ status: "Processed" });
      expect(await store.isProcessed("served")).toBe(true);
      await store.markProcessed("marked");
      const again = await store.tryBegin("given-back");
      if (again.status !== "Acquired") throw new Error(again.status);
      expect(await store.release("given-back", again.leaseId)).toEqual({ status: "Released" });
      const inbox = createInbox(serving, options);
      await expect(inbox.receive({ source: "s", messageId: "1", topic: "t", payload: "{}" })).rejects.toThrow(
        denied,
      );
      await expect(inbox.list({ state: "Seen" })).rejects.toThrow(denied);
      await expect(inbox.claim({ owner: newOwnerToken() })).rejects.toThrow(denied);
    });
  });

  it("MSG-01 MSG-05 FUN-10 a service sends and receives by its own procedures, and calls none of the app's", async () => {
    const options = { schema: admin.schema! };
    await as(users[5][0], async (serving) => {
      if (await isBabelfish(admin)) await grantTables(users[5][0]);
      await expectService(serving, admin.schema!);
      const [inbox, outbox] = [createInbox(serving, options), createOutbox(serving, options)];
      await expect(outbox.enqueue({ topic: "t", payload: "{}" })).rejects.toThrow(denied);
      await expect(outbox.claim({ owner: newOwnerToken() })).rejects.toThrow(denied);
      await expect(inbox.list({ state: "Seen" })).rejects.toThrow(denied);
      await expect(createSqlInboxStore(serving, options).tryBegin("k")).rejects.toThrow(denied);
    });
    const ofService = createOutbox(db, { ...options, table: "messages_outbox" });
    expect(await ofService.enqueue({ topic: "shop/Sent", payload: "{}" })).toBeDefined(); // in the functions' own transactions
  });

  it("MSG-14 ADD-02 an operator reads how the queues are doing, by rights that the functions' user does not have", async () => {
    const options = { schema: admin.schema! };
    const source = "operated";
    const [inbox, outbox] = [createInbox(admin.db, options), createOutbox(admin.db, options)];
    await inbox.receive({ source, messageId: "1", topic: "t", payload: "{}", correlationId: "way" });
    await inbox.markDead({ source, messageId: "1" }, "410");
    await as(users[3][0], async (operated) => {
      for (const queue of [createInbox(operated, options), createOutbox(operated, options)]) {
        const operators = operatorsOf(queue as Inbox);
        expect(await operators.countDead({ source })).toBe("receive" in queue ? 1 : 0);
        expect(await operators.deadGroups({ source })).toHaveLength("receive" in queue ? 1 : 0);
        expect((await operators.activity({ sinceMs: 60_000, buckets: 1 })).buckets).toHaveLength(1);
        expect(await operators.byCorrelation("way")).toHaveLength("receive" in queue ? 1 : 0);
        await operators.blockedPartitions();
        await operators.operations();
      }
      for (const table of await objects("U"))
        await expect(run(operated, `delete from ${table}`), table).rejects.toThrow(denied);
      const archive = `select * from [${admin.schema}].[InboxArchive]`;
      await expect(run(operated, archive)).rejects.toThrow(denied);
    });
    await as(users[3][0], async (operated) => {
      const { inbox: table } = otherNames;
      expect(await operatorsOf(createInbox(operated, { ...options, table })).countDead()).toBe(0);
    });
    await as(users[2][0], async (serving) => {
      if (await isBabelfish(admin)) return; // it has rights on all tables there by now
      const operators = operatorsOf(createOutbox(serving, options));
      await expect(operators.countDead()).rejects.toThrow(denied);
    });
    expect((await outbox.stats()).counts.Failed).toBe(0);
  });
});
