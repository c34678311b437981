import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type Channel, type ChannelModel, connect } from "amqplib";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { attributesOf, createInbox, createOutbox, type Database, migrate } from "../../../src/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { ownDatabase, query } from "../../infra/own-database.js";
import { type BundledChild, bundleChild } from "../../support/bundled-child.js";
import { findServer, needs } from "../../support/servers/find-server.js";
import { rabbitServer } from "../../support/servers/recipes.js";
import { untilOpen } from "../../support/servers/until-open.js";
import type { StartedServer } from "../../support/start-postgres.js";
import { exampleOf } from "./consumer-suite.js";

const start = await findServer(rabbitServer);
const queue = "billing.orders";
const childFile = fileURLToPath(new URL("rabbitmq-transaction-child.ts", import.meta.url));
const run = promisify(execFile);
const nothing = { inbox: 0, orders: 0, events: 0 };
const all = { inbox: 1, orders: 1, events: 1 };

type Consume = (channel: Channel, db: Database) => Promise<void>;

interface OpenDatabase {
  readonly db: Database;
  readonly url: string;
  close(): Promise<unknown>;
}

const databases: Readonly<Record<string, () => Promise<OpenDatabase>>> = {
  PostgreSQL: async () => {
    const { db, url, drop } = await ownDatabase();
    return { db, url, close: drop };
  },
  SQLite: async () => {
    const folder = await mkdtemp(join(tmpdir(), "oncebox-rabbitmq-"));
    const file = join(folder, "app.db");
    const db = openSqlite({ file });
    return { db, url: file, close: () => db.close().then(() => rm(folder, { recursive: true })) };
  },
};

describe.skipIf(start === undefined)(
  `examples/consumers: a transaction on RabbitMQ (${needs(rabbitServer)})`,
  () => {
    let server: StartedServer;
    let child: BundledChild;
    let connection: ChannelModel;
    let channel: Channel;

    beforeAll(async () => {
      [server, child] = await Promise.all([start!(), bundleChild(childFile)]);
      connection = await untilOpen(() => connect(server.url)); // it listens before it takes logins
      channel = await connection.createChannel();
    });
    afterAll(async () => {
      await channel?.deleteQueue(queue);
      await connection?.close();
      await child?.remove();
      await server?.stop();
    });
    beforeEach(async () => {
      await channel.deleteQueue(queue);
      await channel.assertQueue(queue);
    });

    const send = (messageId: string) => channel.sendToQueue(queue, Buffer.from("2 books"), { messageId });

    /** Runs the example in a process of its own. Returns how many points it passed, or undefined when it was killed. */
    const consumeAndDie = async (url: string, killAt: number): Promise<number | undefined> => {
      try {
        const args = ["--no-warnings", child.path, server.url, url, String(killAt)];
        return Number((await run(process.execPath, args)).stdout);
      } catch (error) {
        if ((error as { signal?: string }).signal === "SIGKILL") return undefined;
        throw error;
      }
    };

    /** Runs the example here until it has acknowledged the next delivery. Returns whether RabbitMQ had delivered it before. */
    const consumeNext = async (db: Database): Promise<boolean> => {
      const own = await connect(server.url);
      const consuming = await own.createChannel();
      const acked = new Promise<boolean>((resolve) => {
        const ack = consuming.ack.bind(consuming);
        consuming.ack = (delivery) => {
          ack(delivery);
          resolve(delivery.fields.redelivered);
        };
      });
      await (await exampleOf<Consume>("rabbitmq-transaction"))(consuming, db);
      const wasDelivered = await acked;
      await consuming.close(); // after what was acknowledged; the connection alone would close before it is sent
      await own.close();
      return wasDelivered;
    };

    for (const [name, open] of Object.entries(databases))
      it(`MID-08 MID-03 MID-06 ${name}: killed anywhere, its inbox row, order and event are there together or not at all, and once after the redelivery`, async () => {
        const { db, url, close } = await open();
        try {
          await migrate(db);
          await query(db, "create table orders (id varchar(100) not null, body varchar(100) not null)");
          const inbox = createInbox(db);
          const events = async (id: string) =>
            (await createOutbox(db).list({ limit: 1_000 })).messages.filter(
              ({ payload }) => payload === JSON.stringify({ id }),
            );
          const rowsOf = async (id: string) => ({
            inbox: (await inbox.get({ source: "billing", messageId: id })) === null ? 0 : 1,
            orders: (await query(db, `select id from orders where id = '${id}'`)).length,
            events: (await events(id)).length,
          });

          send("whole");
          const points = (await consumeAndDie(url, 0))!;
          expect(await rowsOf("whole")).toEqual(all);
          expect((await events("whole")).map(attributesOf)).toEqual([{ version: 1 }]);
          expect(points).toBeGreaterThanOrEqual(12); // begin, three statements, commit and ack
          for (let killAt = 1; killAt <= points; killAt++) {
            const id = `killed-${killAt}`;
            send(id);
            expect(await consumeAndDie(url, killAt)).toBeUndefined();
            // the last two points are after the commit: before it is known, and before it is acknowledged
            const left = killAt > points - 2 ? all : nothing;
            expect({ killAt, rows: await rowsOf(id) }).toEqual({ killAt, rows: left });
            expect(await consumeNext(db)).toBe(true);
            expect({ killAt, rows: await rowsOf(id) }).toEqual({ killAt, rows: all });
          }
          expect(await channel.checkQueue(queue)).toMatchObject({ messageCount: 0 });
        } finally {
          await close();
        }
      });
  },
);
