import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { InvalidArgumentError, InvalidOperationError } from "../../../src/errors.js";
import { createInbox } from "../../../src/inbox/inbox.js";
import { createOutbox } from "../../../src/outbox/outbox.js";
import { newOwnerToken } from "../../../src/queue/leases.js";
import { migrate, schemaBatches } from "../../../src/sql/migrate.js";
import type { ContractHarness, TestDatabase } from "../harness.js";
import { inSchemaOf, isBabelfish, namesOf } from "../support/database.js";
import { furtherHostileNames, hostileNames, useByOperators } from "./hostile-names.js";
import { dropSchema, exists, newName, recorded, suffix, useInbox, useOutbox } from "./support.js";

/** A schema for each name, twenty tables and procedures in each: a slow server takes seconds for one. */
const manySchemasMs = 600_000;

export function namesContract(harness: ContractHarness): void {
  describe(`${harness.name} migration: names`, () => {
    let opened: TestDatabase | undefined;
    const database = (): TestDatabase => opened!;
    const victim = `v_${suffix()}`;
    const schemas: string[] = [];
    beforeAll(async () => {
      opened = await harness.open();
      await database().raw(`create table ${victim} (id int)`);
      await database().raw(`insert into ${victim} (id) values (1)`);
    });
    afterAll(async () => {
      if (opened === undefined) return;
      for (const schema of schemas) await dropSchema(opened, schema);
      await opened.raw(`drop table ${victim}`);
      await opened.close();
    });

    const ownSchema = (name: string): string => {
      const schema = `${name}${suffix()}`;
      schemas.push(schema);
      return schema;
    };

    /**
     * Babelfish mistakes names with quotes, brackets or letters beyond ASCII when a procedure is altered, and may even crash;
     * SQL Server does not. `test/unit/security/sql-names` reads what SQL Server gets for these.
     */
    const namesFor = async (names: readonly string[]): Promise<readonly string[]> =>
      (await isBabelfish(database()))
        ? names.filter((name) => /^[ -~]*$/.test(name) && !/['"[\]]/.test(name))
        : names;

    it(
      "MID-01 hostile schema and table names work from end to end and destroy nothing",
      async () => {
        const { db } = database();
        for (const name of await namesFor([...hostileNames(victim), ...furtherHostileNames(victim)])) {
          const schema = ownSchema(name);
          const [inbox, outbox] = [`${name}1`, `${name}2`];
          const first = await migrate(db, { schema, inbox, outbox });
          expect(first.applied, name).toHaveLength(2);
          await useOutbox(db, { schema, table: outbox });
          await useInbox(db, { schema, table: inbox });
          await useByOperators(database(), { schema, inbox, outbox });
          expect(await migrate(db, { schema, inbox, outbox }), name).toMatchObject({ applied: [] });
        }
        expect(await database().raw(`select id from ${victim}`)).toHaveLength(1);
      },
      manySchemasMs,
    );

    it(
      "MID-01 hostile names in the rendered schema destroy nothing, and migrate recognises that schema",
      async () => {
        const { db } = database();
        for (const name of await namesFor(hostileNames(victim))) {
          const schema = ownSchema(name);
          const options = { schema, inbox: `${name}1`, outbox: `${name}2` };
          for (const batch of schemaBatches(db.dialect, options)) await database().raw(batch);
          expect(await migrate(db, options), name).toMatchObject({ applied: [] });
          await useOutbox(db, { schema, table: options.outbox });
        }
        expect(await database().raw(`select id from ${victim}`)).toHaveLength(1);
      },
      manySchemasMs,
    );

    it("MID-01 names that are empty, too long or malformed are refused before anything is done", async () => {
      const { db } = database();
      const tooLong = "ü".repeat(21);
      const controls = ["\0", "\n", "\r\ngo\r\n", "\t", "\b", "\u001b[2J", "\u007f", "\u0085"];
      const malformedNames = [...controls.map((one) => `a${one}b`), "\uD800", 7 as unknown as string];
      for (const name of ["", "x".repeat(41), tooLong, ...malformedNames]) {
        expect(() => createInbox(db, { table: name }), String(name)).toThrow(InvalidArgumentError);
        expect(() => createOutbox(db, { table: name })).toThrow(InvalidArgumentError);
        expect(() => createInbox(db, { schema: name })).toThrow(InvalidArgumentError);
        expect(() => createOutbox(db, { schema: name })).toThrow(InvalidArgumentError);
        for (const options of [{ schema: name }, { inbox: name }, { outbox: name }]) {
          await expect(migrate(db, options)).rejects.toBeInstanceOf(InvalidArgumentError);
          expect(() => schemaBatches(db.dialect, options)).toThrow(InvalidArgumentError);
        }
      }
    });

    it("MID-01 names of 40 bytes work", async () => {
      const { db } = database();
      const schema = ownSchema("s".repeat(36));
      const [inbox, outbox] = [
        (await isBabelfish(database())) ? "i".repeat(40) : `${"i".repeat(38)}ü`,
        "o".repeat(40),
      ];
      await migrate(db, { schema, inbox, outbox });
      await useOutbox(db, { schema, table: outbox });
      await useInbox(db, { schema, table: inbox });
    });

    it("MID-01 two long names that differ only at their end are two queues", async () => {
      const { db } = database();
      const [a, b] = [`${"q".repeat(39)}a`, `${"q".repeat(39)}b`];
      await migrate(db, { ...inSchemaOf(database()), inbox: false, outbox: a });
      expect(
        (await migrate(db, { ...inSchemaOf(database()), inbox: false, outbox: b })).applied,
      ).toHaveLength(1);
      await useOutbox(db, { ...inSchemaOf(database()), table: a });
      await useOutbox(db, { ...inSchemaOf(database()), table: b });
    });

    it("MID-01 two inboxes and two outboxes in one schema are independent", async () => {
      const { db } = database();
      const [inA, inB, outA, outB] = [newName(), newName(), newName(), newName()];
      const schema = inSchemaOf(database());
      await migrate(db, { ...schema, inbox: inA, outbox: outA });
      await migrate(db, { ...schema, inbox: inB, outbox: outB });
      const [inboxA, inboxB] = [
        createInbox(db, { ...schema, table: inA }),
        createInbox(db, { ...schema, table: inB }),
      ];
      const message = { source: "s", messageId: "1", topic: "t", payload: "A" };
      expect(await inboxA.receive(message)).toBe("enqueued");
      expect(await inboxB.get(message)).toBeNull();
      expect(await inboxB.receive({ ...message, payload: "B" })).toBe("enqueued");
      const owner = newOwnerToken();
      const [claimed] = await inboxA.claim({ owner });
      expect(claimed!.payload).toBe("A");
      await inboxA.ack(owner, [claimed!]);
      expect(await inboxB.get(message)).toMatchObject({ payload: "B", state: "Processing" });

      const [outboxA, outboxB] = [
        createOutbox(db, { ...schema, table: outA }),
        createOutbox(db, { ...schema, table: outB }),
      ];
      const id = await outboxA.enqueue({ topic: "t", payload: "A" });
      expect(await outboxB.get({ id })).toBeNull();
      expect(await outboxB.claim({ owner })).toEqual([]);
      expect((await outboxB.stats()).counts.Ready).toBe(0);
      expect((await outboxA.claim({ owner }))[0]!.id).toBe(id);
    });

    it("MID-01 the same names in two schemas are two queues", async () => {
      const { db } = database();
      const [one, two] = [ownSchema("one"), ownSchema("two")];
      for (const schema of [one, two]) expect((await migrate(db, { schema })).applied).toHaveLength(2);
      const id = await createOutbox(db, { schema: one }).enqueue({ topic: "t", payload: "" });
      expect(await createOutbox(db, { schema: two }).get({ id })).toBeNull();
      expect(await createOutbox(db, { schema: one }).get({ id })).not.toBeNull();
    });

    it("MID-01 an inbox and an outbox with one name are refused, and nothing is created", async () => {
      const { db } = database();
      const table = newName();
      const options = { ...inSchemaOf(database()), inbox: table, outbox: table };
      await expect(migrate(db, options)).rejects.toBeInstanceOf(InvalidArgumentError);
      expect(await exists(database(), namesOf(database(), "inbox", table).message)).toBe(false);
    });

    it("MID-01 a queue whose name belongs to a table of the other queue, or to the ledger, is refused by that name", async () => {
      const { db } = database();
      const inbox = newName();
      const schema = inSchemaOf(database());
      for (const suffix of [
        "State",
        "_state",
        "Messages",
        "_messages",
        "_done",
        "PartitionQueue",
        "CURSOR",
      ]) {
        const outbox = `${inbox}${suffix}`;
        const error = await migrate(db, { ...schema, inbox, outbox }).catch((caught: unknown) => caught);
        expect(error, suffix).toBeInstanceOf(InvalidArgumentError);
        expect((error as Error).message).toMatch(/Choose another name: migrate\(db, { outbox: "…" }\)/);
        expect((error as Error).message).toContain(`"${outbox}"`);
        expect((error as Error).message).toContain(`the inbox "${inbox}"`);
      }
      const ledger = migrate(db, { ...schema, inbox: "Oncebox_Migrations" });
      await expect(ledger).rejects.toThrow(/"Oncebox_Migrations", which belongs to oncebox itself/);
      expect(await exists(database(), namesOf(database(), "inbox", inbox).message)).toBe(false);
    });

    it("MID-01 a table of another application with the ledger's name is named in the error, not read", async () => {
      const { db } = database();
      const schema = ownSchema("taken");
      if (db.dialect.name !== "sqlite") await database().raw(`create schema ${schema}`);
      const ledger = db.dialect.names("inbox", schema, "oncebox_migrations").object("");
      await database().raw(`create table ${ledger} (own int)`);
      const error = await migrate(db, { schema }).catch((caught: unknown) => caught);
      expect(error).toBeInstanceOf(InvalidOperationError);
      expect((error as Error).message).toContain(
        `the table "oncebox_migrations" in the schema "${schema}" is not`,
      );
      expect(await exists(database(), db.dialect.names("inbox", schema, "inbox").message)).toBe(false);
    });

    it("MID-01 a table that is not ours is named and kept, and the failed migration leaves nothing behind", async () => {
      const { db } = database();
      const schema = inSchemaOf(database());
      await migrate(db, { ...schema, inbox: newName(), outbox: newName() }); // the schema exists
      const [mine, theirs] = [newName(), newName()];
      const names = namesOf(database(), "outbox", theirs);
      await database().raw(`create table ${names.state} (own int)`);
      await database().raw(`insert into ${names.state} (own) values (7)`);
      const error = await migrate(db, { ...schema, inbox: mine, outbox: theirs }).catch(
        (caught: unknown) => caught,
      );
      expect(error).toBeInstanceOf(InvalidOperationError);
      expect((error as Error).message).toMatch(new RegExp(`the outbox "${theirs}".*${theirs}_?state`, "i"));
      expect((error as Error).message).toContain("Choose another name");
      expect(await exists(database(), names.message)).toBe(false);
      expect(await exists(database(), namesOf(database(), "inbox", mine).message)).toBe(false);
      expect(await recorded(database(), `inbox:${mine}`)).toEqual([]);
      expect(await recorded(database(), `outbox:${theirs}`)).toEqual([]);
      expect(await database().raw(`select own as own from ${names.state}`)).toEqual([{ own: 7 }]);
      await database().raw(`drop table ${names.state}`);
      expect((await migrate(db, { ...schema, inbox: mine, outbox: theirs })).applied).toHaveLength(2);
      const taken = migrate(db, { ...schema, inbox: false, outbox: mine }); // by the inbox of another call
      await expect(taken).rejects.toThrow(/Choose another name/);
    });
  });
}
