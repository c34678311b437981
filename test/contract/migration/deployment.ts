import { beforeAll, describe, expect, it } from "vitest";
import { InvalidArgumentError, SchemaMissingError } from "../../../src/errors.js";
import { createInbox } from "../../../src/inbox/inbox.js";
import { createInboxReceiver } from "../../../src/inbox/receiver.js";
import { createOutbox } from "../../../src/outbox/outbox.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { type MigrateOptions, migrate, renderSchema, schemaBatches } from "../../../src/sql/migrate.js";
import { type ContractHarness, useDatabase } from "../harness.js";
import { inSchemaOf, isBabelfish, namesOf } from "../support/database.js";
import { watched } from "../support/watched.js";
import { exists, indexesOf, newName, recorded, useInbox, useOutbox } from "./support.js";

const incoming = { source: "s", messageId: "1", topic: "t", payload: "p" };
const outgoing = { topic: "t", payload: "p" };

export function deploymentContract(harness: ContractHarness): void {
  describe(`${harness.name} migration: deployment`, () => {
    const database = useDatabase(harness);
    beforeAll(async () => {
      await migrate(database().db, { ...inSchemaOf(database()), inbox: newName(), outbox: newName() });
    });

    it("IBX-114 OBX-091 enableSchemaDeployment creates the tables before the first use", async () => {
      const { db } = database();
      const table = { ...inSchemaOf(database()), enableSchemaDeployment: true };
      await useOutbox(db, { ...table, table: newName() });
      await useInbox(db, { ...table, table: newName() });
    });

    it("IBX-114 OBX-091 MID-01 init() deploys before the first use, and once for many calls", async () => {
      const [inboxTable, outboxTable] = [newName(), newName()];
      const db = watched(database().db);
      const options = { ...inSchemaOf(database()), enableSchemaDeployment: true };
      const inbox = createInbox(db, { ...options, table: inboxTable });
      const outbox = createOutbox(db, { ...options, table: outboxTable });
      await inbox.init();
      await inbox.init();
      await Promise.all([outbox.enqueue(outgoing), outbox.enqueue(outgoing), outbox.stats(), outbox.init()]);

      expect(await exists(database(), namesOf(database(), "inbox", inboxTable).message)).toBe(true);
      expect((await outbox.stats()).counts.Ready).toBe(2);
      expect(db.calls.filter((call) => call === "exclusively")).toHaveLength(2);
    });

    it("IBX-114 OBX-091 FUN-09 a receiver deploys no schema, and receives like the inbox once there is one", async () => {
      const { db } = database();
      const options = { ...inSchemaOf(database()), table: newName(), enableSchemaDeployment: true };
      const receiver = createInboxReceiver(db, options);
      await expect(receiver.receive(incoming)).rejects.toBeInstanceOf(SchemaMissingError);

      const inbox = createInbox(db, options);
      await inbox.init();
      expect(await receiver.receive(incoming)).toBe("enqueued");
      expect(await receiver.receive(incoming)).toBe("duplicate");
      expect(await inbox.receive(incoming)).toBe("duplicate");
      const keyed = { ...incoming, messageId: "2", partitionKey: "k" };
      expect(await receiver.receive(keyed)).toBe("enqueued");
      const claimed = await inbox.claim({ owner: newOwnerToken() });
      expect(claimed.map(({ messageId }) => messageId).sort()).toEqual(["1", "2"]);
    });

    it("IBX-114 OBX-091 a store deploys only its own queue", async () => {
      const table = newName();
      await createOutbox(database().db, {
        ...inSchemaOf(database()),
        enableSchemaDeployment: true,
        table,
      }).init();
      expect(await recorded(database(), `outbox:${table}`)).not.toEqual([]);
      expect(await recorded(database(), `inbox:${table}`)).toEqual([]);
    });

    it("IBX-114 OBX-091 a deployment that failed is tried again by the next call", async () => {
      const { db } = database();
      let failures = 1;
      const flaky = {
        ...db,
        exclusively: ((schema, work) => {
          if (failures-- > 0) return Promise.reject(new Error("the server is starting"));
          return db.exclusively(schema, work);
        }) as typeof db.exclusively,
      };
      const options = { ...inSchemaOf(database()), enableSchemaDeployment: true, table: newName() };
      const outbox = createOutbox(flaky, options);
      await expect(outbox.enqueue(outgoing)).rejects.toThrow("the server is starting");
      expect(await outbox.enqueue(outgoing)).toMatch(/-/);
    });

    it("IBX-115 OBX-092 without enableSchemaDeployment nothing is created, and the error says what to do", async () => {
      for (const schema of [inSchemaOf(database()), { schema: "no_such_schema" }]) {
        const table = newName();
        const db = watched(database().db);
        const outbox = createOutbox(db, { ...schema, table });
        const inbox = createInbox(db, { ...schema, table });
        await outbox.init();
        await inbox.init();
        expect(db.calls).toEqual([]);
        const owner = newOwnerToken();
        const calls = [
          () => outbox.enqueue(outgoing),
          () => outbox.enqueue([outgoing, outgoing]),
          () => outbox.claim({ owner }),
          () => outbox.stats(),
          () => outbox.list(),
          () => outbox.reapExpired(),
          () => outbox.purgeDone(),
          () => inbox.receive(incoming),
          () => inbox.alreadyProcessed(incoming),
          () => inbox.claim({ owner }),
        ];
        for (const call of calls) {
          const error: unknown = await call().catch((caught: unknown) => caught);
          expect(error, call.toString()).toBeInstanceOf(SchemaMissingError);
          expect(error).toMatchObject({ code: "ONCEBOX_SCHEMA_MISSING" });
          expect((error as Error).message).toContain(table);
          expect((error as Error).message).toMatch(/migrate/);
          expect((error as Error).cause).toBeDefined();
        }
        expect(db.calls).not.toContain("exclusively");
        const where = schema.schema ?? db.dialect.defaults.schema;
        expect(await exists(database(), db.dialect.names("outbox", where, table).message)).toBe(false);
        expect(await exists(database(), db.dialect.names("inbox", where, table).state)).toBe(false);
      }
    });

    it("OBX-092 a missing table is reported in the caller's transaction too", async () => {
      const outbox = createOutbox(database().db, { ...inSchemaOf(database()), table: newName() });
      const caller = await database().begin();
      const enqueued = await outbox.enqueue(outgoing, { tx: caller.tx }).catch((error: unknown) => error);
      await caller.rollback();
      expect(enqueued).toBeInstanceOf(SchemaMissingError);
    });

    it("IBX-116 OBX-093 MID-01 migrating again applies nothing and keeps the messages", async () => {
      const { db } = database();
      const [inbox, outbox] = [newName(), newName()];
      const options: MigrateOptions = { ...inSchemaOf(database()), inbox, outbox };
      const first = await migrate(db, options);
      expect(first.applied).toHaveLength(2);
      expect(first.applied[0]).toContain(inbox);
      expect(first.applied[1]).toContain(outbox);
      const store = createOutbox(db, { ...inSchemaOf(database()), table: outbox });
      const id = await store.enqueue(outgoing);

      for (let again = 0; again < 3; again++)
        expect(await migrate(db, options)).toMatchObject({ applied: [] });
      expect(await store.get({ id })).toMatchObject({ id, state: "Ready" });
      expect(await recorded(database(), `outbox:${outbox}`)).toEqual([1]);
    });

    it("IBX-116 OBX-093 one queue can be migrated without the other, and the other later", async () => {
      const { db } = database();
      const [inbox, outbox] = [newName(), newName()];
      const only = await migrate(db, { ...inSchemaOf(database()), inbox: false, outbox });
      expect(only.applied).toHaveLength(1);
      expect(await exists(database(), namesOf(database(), "inbox", inbox).message)).toBe(false);
      expect((await migrate(db, { ...inSchemaOf(database()), inbox, outbox })).applied).toHaveLength(1);
      expect(await migrate(db, { ...inSchemaOf(database()), inbox: false, outbox: false })).toMatchObject({
        applied: [],
      });
    });

    it("IBX-116 OBX-093 of ten processes that migrate at the same time one does it, and all succeed", async () => {
      const options: MigrateOptions = { ...inSchemaOf(database()), inbox: newName(), outbox: newName() };
      const others = Array.from({ length: 10 }, () => database().reopen());
      const results = await Promise.all(others.map((db) => migrate(db, options)));

      expect(results.map((result) => result.applied.length).sort()).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
      await useOutbox(others[0]!, { ...inSchemaOf(database()), table: options.outbox as string });
    }, 300_000);

    it("IBX-116 OBX-093 a migration during other work neither breaks it nor waits for ever", async () => {
      const { db } = database();
      const table = newName();
      const options: MigrateOptions = { ...inSchemaOf(database()), inbox: false, outbox: table };
      await migrate(db, options);
      const outbox = createOutbox(database().reopen(), { ...inSchemaOf(database()), table });
      const owner = newOwnerToken();
      const work = async () => {
        for (let n = 0; n < 10; n++) {
          await outbox.enqueue(outgoing);
          await outbox.ack(owner, await outbox.claim({ owner }));
        }
      };
      const migrations = async () => {
        for (let n = 0; n < 3; n++) expect(await migrate(db, options)).toMatchObject({ applied: [] });
      };
      await Promise.all([work(), migrations()]);
      expect((await outbox.stats()).counts).toMatchObject({ Ready: 0, Done: 10 });
    });

    it("IBX-117 IBX-122 OBX-094 OBX-100 the state is indexed by status and by the time of the next claim, leases included", async (test) => {
      test.skip(await isBabelfish(database()), "Babelfish's catalogue has no filters of indexes");
      const { db } = database();
      const [inbox, outbox] = [newName(), newName()];
      await migrate(db, { ...inSchemaOf(database()), inbox, outbox });
      for (const names of [namesOf(database(), "inbox", inbox), namesOf(database(), "outbox", outbox)]) {
        const indexes = await indexesOf(database(), names.state);
        const on = (columns: string, filter = /(?:)/) =>
          indexes.filter((index) => index.columns.startsWith(columns) && filter.test(index.filter));
        const found = JSON.stringify(indexes);
        expect(indexes.length, found).toBeGreaterThanOrEqual(2);
        switch (db.dialect.name) {
          case "postgres":
            // one index for all: a claim that moved a row from one index to another could not update it in place
            expect(on("status,visible_at,seq"), found).toHaveLength(1);
            break;
          case "sqlite":
          case "sqlserver":
            // filtered to ready rows, leased ones too, and to dead ones
            expect(on("visible_at,seq", /status\]?\s*=\s*\(?1\b/), found).toHaveLength(1);
            expect(on("seq", /status\]?\s*=\s*\(?4\b/), found).toHaveLength(1);
            break;
        }
      }
    });

    it("IBX-125 source and message id have one unique index together", async () => {
      const inbox = newName();
      await migrate(database().db, { ...inSchemaOf(database()), inbox, outbox: false });
      const indexes = await indexesOf(database(), namesOf(database(), "inbox", inbox).message);
      const unique = indexes.filter((index) => index.unique).map((index) => index.columns);
      expect(unique).toContain("source,message_id");
    });

    it("OBX-095 the schema has stored procedures for claim, ack, abandon, fail and reap", async (test) => {
      test.skip(database().db.dialect.name !== "sqlserver", "needs SQL Server's procedures");
      const table = newName();
      await migrate(database().db, { ...inSchemaOf(database()), inbox: false, outbox: table });
      const rows = await database().raw("select p.name as name from sys.procedures p");
      const procedures = rows.map((row) => String(row.name).toLowerCase());
      for (const verb of ["claim", "ack", "abandon", "fail", "reap"]) {
        expect(procedures).toContainEqual(expect.stringMatching(new RegExp(`^${table}_?${verb}`, "i")));
      }
    });

    it("MID-01 no constructor does I/O", async () => {
      const db = watched(database().db);
      for (const enableSchemaDeployment of [false, true]) {
        createInbox(db, { ...inSchemaOf(database()), table: newName(), enableSchemaDeployment });
        createOutbox(db, { ...inSchemaOf(database()), table: newName(), enableSchemaDeployment });
      }
      schemaBatches(db.dialect, inSchemaOf(database()));
      await new Promise((resolve) => setImmediate(resolve));
      expect(db.calls).toEqual([]);
    });

    it("MID-01 migrate refuses unknown options", async () => {
      const options = { tables: "x", outbux: "y" } as MigrateOptions;
      await expect(migrate(database().db, options)).rejects.toThrow(/tables.*outbux/);
      await expect(migrate(database().db, options)).rejects.toBeInstanceOf(InvalidArgumentError);
    });

    it("IBX-117 OBX-094 the rendered schema, run by hand, is what migrate would create", async () => {
      const { db } = database();
      const options: MigrateOptions = { ...inSchemaOf(database()), inbox: newName(), outbox: newName() };
      for (const batch of schemaBatches(db.dialect, options)) await database().raw(batch);
      const text = renderSchema(db.dialect, options);
      for (const batch of schemaBatches(db.dialect, options)) expect(text).toContain(batch);

      expect(await migrate(db, options)).toMatchObject({ applied: [] });
      await useOutbox(db, { ...inSchemaOf(database()), table: options.outbox as string });
      await useInbox(db, { ...inSchemaOf(database()), table: options.inbox as string });
    });
  });
}
