import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createCatalogueTable, createMessageTables, grantUsers } from "../../src/app/prepare-databases.js";
import { databaseRoles } from "../../src/config/database-users.js";
import { createSqlInboxStore } from "../../src/inbox-store/sql-inbox-store.js";
import { createInbox, createOutbox, type Database, migrate, newOwnerToken } from "../../src/index.js";
import { openPostgres } from "../../src/sql/postgres/index.js";
import { root } from "../support/markdown.js";
import { type StartedServer, startPostgres } from "../support/start-postgres.js";
import { expectService } from "./functions-user.js";
import { type OwnDatabase, ownDatabase, query } from "./own-database.js";

const denied = { code: "42501" };
const refused = { code: "ONCEBOX_PERMISSION_DENIED" };
const users = databaseRoles.map((role) => ({
  name: `id-orders-prod-${role.replace("oncebox_", "")}`,
  role,
  clientId: randomUUID(),
  objectId: randomUUID(),
}));
const scripts = {
  postgres: () => readFile(join(root, "infra/sql/users-postgres.sql"), "utf8"),
  sqlserver: async () => "",
};

describe("the users of function apps on Azure Database for PostgreSQL, as the migration makes them", () => {
  /** Only for this file: roles belong to the whole server. */
  let server: StartedServer;
  let database: OwnDatabase;
  let owner: Database;
  const labels: string[] = [];

  beforeAll(async () => {
    server = await startPostgres();
    database = await ownDatabase(server.url);
    // What an Entra administrator has: he creates roles, and may create schemas.
    await database.run(`create role "id-orders-prod-migrate" login createrole`);
    await database.run(`grant create on database ${database.name} to "id-orders-prod-migrate"`);
    owner = openPostgres({ url: as("id-orders-prod-migrate"), maxConnections: 2 });
    await migrate(owner);
    await grantUsers(withoutAzure(owner), {}, users, scripts); // there is no service yet, and no table of one
    labels.length = 0;
    await createMessageTables(owner, {});
    for (const _ of ["once", "again"]) await grantUsers(withoutAzure(owner), {}, users, scripts);
    await database.run(`grant create on schema public to "id-orders-prod-migrate"`);
    for (const _ of ["once", "again"]) await createCatalogueTable(owner);
  });
  afterAll(async () => {
    await owner?.close();
    await database?.drop();
    await server?.stop();
  });

  const as = (name: string): string => {
    const target = new URL(database.url);
    target.username = name;
    return target.href;
  };

  /** Only Azure knows these labels. Every other server refuses them after it has parsed the statement. */
  const withoutAzure = (db: Database): Database => ({
    ...db,
    driver: {
      ...db.driver,
      async query(statement, params, options) {
        if (!statement.text.startsWith("security label")) return db.driver.query(statement, params, options);
        labels.push(statement.text);
        await expect(db.driver.query(statement, params, options)).rejects.toThrow(
          'security label provider "pgaadauth" is not loaded',
        );
        return [];
      },
    },
  });

  const signedIn = async (role: (typeof databaseRoles)[number], work: (db: Database) => Promise<void>) => {
    const db = openPostgres({ url: as(users.find((user) => user.role === role)!.name), maxConnections: 2 });
    await work(db).finally(() => db.close());
  };

  it("FUN-10 each has a label with the identity's object id, its role, and nothing else", async () => {
    expect(labels).toHaveLength(2 * users.length);
    for (const { name, objectId } of users)
      expect(labels).toContain(
        `security label for "pgaadauth" on role "${name}" is 'aadauth,oid=${objectId},type=service'`,
      );
    const members = await database.run(
      `select u.rolname as name, r.rolname as role, u.rolcreaterole or u.rolcreatedb or u.rolsuper as strong
from pg_auth_members m join pg_roles u on u.oid = m.member join pg_roles r on r.oid = m.roleid
where u.rolname like 'id-orders-prod-%' and u.rolname <> 'id-orders-prod-migrate' order by 1`,
    );
    expect(members).toEqual(
      users
        .map(({ name, role }) => ({ name, role, strong: false }))
        .sort((a, b) => (a.name < b.name ? -1 : 1)),
    );
  });

  it("FUN-10 receivers store webhooks, with partition keys too, and cannot handle, delete or send", async () => {
    await signedIn("oncebox_receivers", async (db) => {
      const inbox = createInbox(db);
      const message = { source: "s", messageId: "1", topic: "t", payload: "{}" };
      expect(await inbox.receive(message)).toBe("enqueued");
      expect(await inbox.receive(message)).toBe("duplicate");
      expect(await inbox.receive({ ...message, payload: "[]" })).toBe("duplicate");
      expect(await inbox.receive({ ...message, messageId: "2", partitionKey: "k" })).toBe("enqueued");
      await inbox.enqueue(["3", "4"].map((messageId) => ({ ...message, messageId })));
      await inbox.markDead({ source: "s", messageId: "part" }, "no event");
      await expect(inbox.purgeDone({ retentionMs: 1 })).rejects.toMatchObject(refused);
      await expect(query(db, "delete from infra.inbox_messages")).rejects.toMatchObject(denied);
      await expect(query(db, "delete from infra.inbox_state")).rejects.toMatchObject(denied);
      await expect(createOutbox(db).enqueue({ topic: "t", payload: "{}" })).rejects.toMatchObject(refused);
      await expect(query(db, "select * from infra.outbox_messages")).rejects.toMatchObject(denied);
      await expect(query(db, "select * from infra.oncebox_operations")).rejects.toMatchObject(denied);
      await expect(query(db, "create table infra.more (n int)")).rejects.toMatchObject(denied);
    });
  });

  it("FUN-10 SVC-07 the inbox service leases and marks keys, and reads no message", async () => {
    await signedIn("oncebox_service", async (db) => {
      const store = createSqlInboxStore(db);
      const begun = await store.tryBegin("served", { owner: "consumer-1" });
      if (begun.status !== "Acquired") throw new Error(begun.status);
      expect(await store.tryBegin("served")).toMatchObject({ status: "Busy" });
      expect(await store.inspect("served")).toMatchObject({ status: "Leased", owner: "consumer-1" });
      expect(await store.renew("served", begun.leaseId, 60_000)).toMatchObject({ status: "Renewed" });
      expect(await store.finish("served", begun.leaseId)).toEqual({ status: "Processed" });
      expect(await store.isProcessed("served")).toBe(true);
      await store.markProcessed("marked");
      const again = await store.tryBegin("given-back");
      if (again.status !== "Acquired") throw new Error(again.status);
      expect(await store.release("given-back", again.leaseId)).toEqual({ status: "Released" });
      const inbox = createInbox(db);
      const message = { source: "s", messageId: "9", topic: "t", payload: "{}" };
      await expect(inbox.receive(message)).rejects.toMatchObject(refused);
      await expect(inbox.list({ state: "Seen" })).rejects.toMatchObject(refused);
      await expect(inbox.claim({ owner: newOwnerToken() })).rejects.toMatchObject(refused);
      await expect(query(db, "select payload from infra.inbox_messages")).rejects.toMatchObject(denied);
      await expect(query(db, "select * from infra.outbox_state")).rejects.toMatchObject(denied);
    });
  });

  it("ADD-26 producers enqueue and receive by the two functions, with partition keys too, and can do nothing else", async () => {
    const delivery =
      "source => 'erp', message_id => '1', topic => 't', payload => '{}', partition_key => 'k'";
    await signedIn("oncebox_producers", async (db) => {
      const enqueued = await query(
        db,
        "select infra.outbox_enqueue(topic => 't', payload => 'secret', partition_key => 'k', natural_key => 'n') as id",
      );
      expect(enqueued).toEqual([{ id: expect.stringMatching(/^[0-9a-f-]{36}$/) }]);
      for (const outcome of ["enqueued", "duplicate"])
        expect(await query(db, `select infra.inbox_receive(${delivery}) as outcome`)).toEqual([{ outcome }]);

      for (const table of ["outbox", "outbox_state", "outbox_messages", "inbox", "inbox_pending_arrivals"])
        await expect(query(db, `select * from infra.${table}`)).rejects.toMatchObject(denied);
      for (const write of [
        "delete from infra.outbox_messages",
        "update infra.outbox_state set status = 1",
        "insert into infra.outbox_pending_arrivals (seqs) values ('{1}')",
        "create table infra.more (n int)",
      ])
        await expect(query(db, write)).rejects.toMatchObject(denied);
      const outbox = createOutbox(db);
      await expect(outbox.claim({ owner: newOwnerToken() })).rejects.toMatchObject(refused);
      await expect(outbox.purgeDone({ retentionMs: 1 })).rejects.toMatchObject(refused);
      await expect(outbox.enqueue({ topic: "t", payload: "{}" })).rejects.toMatchObject(refused);
      // the functions of oncebox itself, which rewrite a known message
      const known = { source: "erp", messageId: "1", topic: "t", payload: "rewritten" };
      await expect(createInbox(db).receive(known)).rejects.toMatchObject(refused);
      await expect(createInbox(db).markDead({ source: "erp", messageId: "1" }, "no")).rejects.toMatchObject(
        refused,
      );
    });
    const claimed = await createOutbox(owner).claim({ owner: newOwnerToken() });
    expect(claimed).toMatchObject([{ payload: "secret", partitionKey: "k", naturalKey: "n" }]);
    for (const role of ["oncebox_service", "oncebox_receivers"] as const)
      await signedIn(role, async (db) => {
        await expect(query(db, "select infra.outbox_enqueue('t', '{}')")).rejects.toMatchObject(denied);
      });
  });

  it("MSG-01 MSG-05 FUN-10 a service sends and receives on its own tables, as the functions may for it, and sees no queue of the app", async () => {
    for (const role of ["oncebox_messaging", "oncebox_functions"] as const) {
      await database.run(`truncate infra.messages_inbox_done, infra.messages_outbox_state cascade`);
      for (const table of ["messages_inbox_messages", "messages_outbox_messages"])
        await database.run(`truncate infra.${table} cascade`);
      await signedIn(role, (db) => expectService(db, undefined));
    }
    await signedIn("oncebox_messaging", async (db) => {
      for (const table of ["inbox", "inbox_state", "outbox", "outbox_messages", "inbox_keys"])
        await expect(query(db, `select * from infra.${table}`)).rejects.toMatchObject(denied);
      await expect(query(db, "select who from infra.oncebox_operations")).rejects.toMatchObject(denied);
      await expect(createOutbox(db).enqueue({ topic: "t", payload: "{}" })).rejects.toMatchObject(refused);
      await expect(query(db, "create table infra.more (n int)")).rejects.toMatchObject(denied);
    });
    for (const role of ["oncebox_receivers", "oncebox_service", "oncebox_producers"] as const)
      await signedIn(role, async (db) => {
        await expect(query(db, "select * from infra.messages_inbox")).rejects.toMatchObject(denied);
        await expect(query(db, "select * from infra.messages_outbox")).rejects.toMatchObject(denied);
      });
  });

  it("FUN-08 FUN-10 SVC-07 the catalogue of tenants is read by those who find them, and not by the inbox service", async () => {
    for (const role of databaseRoles)
      await signedIn(role, async (db) => {
        const read = query(db, 'select * from "tenants"');
        if (["oncebox_service", "oncebox_producers", "oncebox_messaging"].includes(role))
          await expect(read).rejects.toMatchObject(denied);
        else expect(await read).toEqual([]);
        await expect(query(db, 'delete from "tenants"')).rejects.toMatchObject(denied);
      });
  });
});
