import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, inject, it, onTestFinished } from "vitest";
import { omitUndefined } from "../../src/base/defined.js";
import { readEnvironment } from "../../src/config/environment.js";
import {
  createApp,
  createInbox,
  createOutbox,
  createWorker,
  type Database,
  defineApp,
  InvalidArgumentError,
  migrate,
  newOwnerToken,
  type OutboxMessage,
  type Worker,
} from "../../src/index.js";
import { defineMessages, signal } from "../../src/messaging/messages.js";
import { createService } from "../../src/messaging/service.js";
import { inProcessTransport } from "../../src/messaging/transports/in-process-transport.js";
import {
  disableNotify,
  enableNotify,
  fromPg,
  openPostgres,
  wakeUpOnNotify,
} from "../../src/sql/postgres/index.js";
import { channelOf, namesOf } from "../../src/sql/postgres/notify.js";
import { textMember } from "./messaging/support.js";

const url = inject("postgresUrl");
const anHour = 3_600_000;

describe("PostgreSQL wakes workers by NOTIFY", () => {
  let schema: string;
  let db: Database;
  const workers: Worker[] = [];
  const clients: pg.Client[] = [];

  beforeEach(async () => {
    schema = `n_${randomUUID().slice(0, 8)}`;
    db = openPostgres({ url });
    await migrate(db, { schema });
  });

  afterEach(async () => {
    await Promise.all(workers.splice(0).map((worker) => worker.stop()));
    await query(`drop schema "${schema}" cascade`);
    await Promise.all(clients.splice(0).map((client) => client.end()));
    await db.close();
  });

  const connected = async (): Promise<pg.Client> => {
    const client = new pg.Client(url);
    clients.push(client);
    await client.connect();
    return client;
  };
  const query = async (text: string, values: unknown[] = []) =>
    (await (clients[0] ?? (await connected())).query(text, values)).rows;

  const channel = (kind: "inbox" | "outbox") => channelOf(namesOf({ kind, schema }));
  const listeners = async (table = "outbox"): Promise<readonly number[]> => {
    const listen = `listen "${channelOf(namesOf({ kind: "outbox", schema, table }))}"`;
    const rows = await query("select pid from pg_stat_activity where query = $1", [listen]);
    return rows.map((row) => row.pid as number);
  };
  const untilListening = (count: number, table?: string) =>
    expect.poll(async () => (await listeners(table)).length).toBe(count);

  /** A worker whose next poll is an hour away, and the payloads it has handled. */
  const startWorker = (handled: string[]): void => {
    const handlers = { t: (message: OutboxMessage) => void handled.push(message.payload) };
    const wakeUp = wakeUpOnNotify({ url, kind: "outbox", schema });
    const store = createOutbox(db, { schema });
    workers.push(createWorker({ store, handlers, wakeUp, pollMs: anHour, idlePollMs: anHour }));
  };
  const enqueue = (payload: string) => createOutbox(db, { schema }).enqueue({ topic: "t", payload });
  const untilHandled = (handled: readonly string[], payloads: readonly string[]) =>
    expect.poll(() => [...handled].sort()).toEqual([...payloads].sort());

  /** The number of notifications until `work` is done. */
  const notifiedBy = async (kind: "inbox" | "outbox", work: () => Promise<unknown>): Promise<number> => {
    const client = await connected();
    const name = channel(kind);
    let count = 0;
    const ended = new Promise<void>((resolve) => {
      client.on("notification", ({ payload }) => {
        if (payload === "end") resolve();
        else count++;
      });
    });
    await client.query(`listen "${name}"`);
    await work();
    await query("select pg_notify($1, 'end')", [name]); // notifications come in the order of commits
    await ended;
    return count;
  };

  it("ADD-24 an app that was started with notify handles what another process commits", async () => {
    for (const kind of ["inbox", "outbox"] as const) await enableNotify(db, { kind, schema });
    const handled: string[] = [];
    const definition = defineApp({
      database: url,
      schema,
      logger: false,
      publishers: { t: ({ payload }) => void handled.push(payload) },
    });
    const app = await createApp(definition, { environment: await readEnvironment({}) });
    await app.start({ notify: true, pollMs: anHour, idlePollMs: anHour });
    await untilListening(1);
    await enqueue("of another process");
    await untilHandled(handled, ["of another process"]);
    await app.close();
    await untilListening(0);
  });

  it("ADD-09 a message is handled at once, though the next poll is an hour away", async () => {
    await enableNotify(db, { kind: "outbox", schema });
    const handled: string[] = [];
    startWorker(handled);
    await untilListening(1);
    await enqueue("first");
    await untilHandled(handled, ["first"]);
    await enqueue("second");
    await untilHandled(handled, ["first", "second"]);
  });

  it("ADD-09 a message of the caller's own transaction notifies at its commit, and never after a rollback", async () => {
    await enableNotify(db, { kind: "outbox", schema });
    const outbox = createOutbox(db, { schema });
    const notified = await notifiedBy("outbox", async () => {
      const client = await connected();
      for (const end of ["rollback", "commit"]) {
        await client.query("begin");
        await outbox.enqueue({ topic: "t", payload: "1" }, { tx: fromPg(client) });
        await outbox.enqueue({ topic: "t", payload: "2" }, { tx: fromPg(client) });
        await client.query(end);
      }
    });
    expect(notified).toBe(1);
  });

  it("ADD-09 ADD-26 a message that plain SQL enqueues or receives notifies at its commit, and never after a rollback", async () => {
    for (const kind of ["inbox", "outbox"] as const) await enableNotify(db, { kind, schema });
    const calls = {
      outbox: `select "${schema}".outbox_enqueue(topic => 't', payload => 'p', partition_key => 'k')`,
      inbox: `select "${schema}".inbox_receive(source => 's', message_id => '1', topic => 't', payload => 'p')`,
    };
    for (const kind of ["inbox", "outbox"] as const) {
      const notified = await notifiedBy(kind, async () => {
        const client = await connected();
        for (const end of ["rollback", "commit"]) {
          await client.query("begin");
          await client.query(calls[kind]);
          await client.query(end);
        }
      });
      expect(notified).toBe(1);
    }
  });

  it("ADD-09 a listener whose session is ended listens again, and misses nothing", async () => {
    await enableNotify(db, { kind: "outbox", schema });
    const handled: string[] = [];
    startWorker(handled);
    await untilListening(1);
    const [pid] = await listeners();
    await query("select pg_terminate_backend($1)", [pid]);
    await enqueue("while no session listened");
    await untilHandled(handled, ["while no session listened"]);
    await untilListening(1);
    expect(await listeners()).not.toEqual([pid]);
    await enqueue("again");
    await untilHandled(handled, ["while no session listened", "again"]);
  });

  it("ADD-09 two workers are both woken, and share the messages", async () => {
    await enableNotify(db, { kind: "outbox", schema });
    const handled: string[] = [];
    startWorker(handled);
    startWorker(handled);
    await untilListening(2);
    const payloads = Array.from({ length: 40 }, String);
    await Promise.all(payloads.map(enqueue));
    await untilHandled(handled, payloads);
  });

  it("ADD-09 stopping the worker ends its listener", async () => {
    await enableNotify(db, { kind: "outbox", schema });
    startWorker([]);
    await untilListening(1);
    await workers.splice(0)[0]!.stop();
    await untilListening(0);
  });

  it("ADD-09 only claimable messages notify, once per transaction", async () => {
    await enableNotify(db, { kind: "inbox", schema });
    await enableNotify(db, { kind: "inbox", schema }); // again, harmlessly
    const inbox = createInbox(db, { schema });
    const message = (messageId: string) => ({ source: "s", messageId, topic: "t", payload: "p" });
    expect(await notifiedBy("inbox", () => inbox.receive(message("1")))).toBe(1);
    expect(await notifiedBy("inbox", () => inbox.receive(message("1")))).toBe(0);
    expect(await notifiedBy("inbox", () => inbox.alreadyProcessed({ source: "s", messageId: "2" }))).toBe(0);
    expect(await notifiedBy("inbox", () => inbox.enqueue([message("3"), message("4")]))).toBe(1);
    expect(await notifiedBy("inbox", () => inbox.enqueue([message("3"), message("4")]))).toBe(0);
  });

  it("ADD-01 ADD-02 ADD-09 a message that becomes claimable later notifies too: the next head, a Seen message, a replay", async () => {
    await enableNotify(db, { kind: "inbox", schema });
    const inbox = createInbox(db, { schema });
    const keyed = (messageId: string) => ({
      source: "k",
      messageId,
      topic: "keyed",
      payload: "p",
      partitionKey: "key",
    });
    expect(await notifiedBy("inbox", () => inbox.receive(keyed("1")))).toBe(1);
    expect(await notifiedBy("inbox", () => inbox.receive(keyed("2")))).toBe(0); // it is blocked
    expect(await notifiedBy("inbox", () => inbox.markDead(keyed("1"), "no"))).toBe(1);
    expect(await notifiedBy("inbox", () => inbox.replay([keyed("1")]))).toBe(0); // blocked again
    const seen = { source: "k", messageId: "seen", topic: "t", payload: "p" };
    await inbox.alreadyProcessed(seen);
    expect(await notifiedBy("inbox", () => inbox.receive(seen))).toBe(1);
    await inbox.markDead(seen, "no");
    expect(await notifiedBy("inbox", () => inbox.replay([seen]))).toBe(1);
    const owner = newOwnerToken();
    expect(await notifiedBy("inbox", () => inbox.claim({ owner }))).toBe(0);
  });

  it("ADD-09 without enableNotify, or after disableNotify, nothing is notified", async () => {
    expect(await notifiedBy("outbox", () => enqueue("before"))).toBe(0);
    await enableNotify(db, { kind: "outbox", schema });
    expect(await notifiedBy("outbox", () => enqueue("with"))).toBe(1);
    await disableNotify(db, { kind: "outbox", schema });
    expect(await notifiedBy("outbox", () => enqueue("after"))).toBe(0);
    await disableNotify(db, { kind: "outbox", schema });
  });

  it("ADD-09 a server that is away is reported, does not delay a worker, and the listener can be stopped", async () => {
    const warnings: string[] = [];
    const note = (message: string): void => void warnings.push(message);
    const logger = { debug: note, info: note, warn: note, error: note };
    const source = wakeUpOnNotify({ url: "postgres://nobody@127.0.0.1:1/none", kind: "inbox", logger });
    const stop = await source(() => {}, new AbortController().signal);
    await expect.poll(() => warnings).toContain("listening was interrupted");
    await stop();
  });

  it("refuses missing and unknown options", () => {
    expect(() => wakeUpOnNotify({ kind: "inbox" })).toThrow(InvalidArgumentError);
    expect(() => wakeUpOnNotify({ url, kind: "queue" as "inbox" })).toThrow(InvalidArgumentError);
    expect(() => wakeUpOnNotify({ url, kind: "inbox", chanel: "x" } as never)).toThrow(InvalidArgumentError);
  });

  describe("of services", () => {
    /** Services that poll once an hour, so that only a wake-up is in time. */
    const services = async (notify?: boolean) => {
      const handled: string[] = [];
      const inProcess = inProcessTransport();
      const messages = defineMessages({ OrderApproved: signal(textMember("orderId")) });
      const shared = { db, messages, schema, pollMs: anHour, ...omitUndefined({ notify }) };
      const inventory = createService({
        ...shared,
        serviceId: "inventory",
        table: "inventory",
        receive: { OrderApproved: ({ orderId }) => void handled.push(orderId) },
      });
      const ordersOn = (on: Database) =>
        createService({
          ...shared,
          db: on,
          serviceId: "orders",
          destinations: { inventory: { transport: "inprocess" as const } },
          transports: { own: [inProcess] },
        });
      const orders = ordersOn(db);
      for (const service of [inventory, orders]) {
        await service.init();
        onTestFinished(() => service.close());
      }
      inProcess.serve("inventory", inventory.receiver);
      return { orders, ordersOn, handled };
    };
    const triggers = () =>
      query("select oid, tgname as name from pg_trigger where tgrelid = $1::regclass order by tgname", [
        `"${schema}"."messages_outbox_state"`,
      ]);

    it("MSG-01 MSG-18 a commit of the caller's own transaction wakes the sender", async () => {
      const { orders, handled } = await services();
      orders.start();
      await untilListening(1, "messages_outbox");
      const own = await connected();
      for (const orderId of ["1", "2"]) {
        await own.query("begin");
        await orders.send.OrderApproved("inventory", { orderId }, { tx: fromPg(own) });
        await own.query("commit");
        await expect.poll(() => handled.at(-1)).toBe(orderId);
      }
      await orders.stop();
      await untilListening(0, "messages_outbox");
    });

    it("MSG-18 by default a message of another process is sent at once, though the next poll is an hour away", async () => {
      const { orders, ordersOn, handled } = await services();
      orders.start();
      await untilListening(1, "messages_outbox");
      // Its own connections, and no worker: it shares with the first what two processes share.
      const elsewhere = openPostgres({ url });
      onTestFinished(() => elsewhere.close());
      const other = ordersOn(elsewhere);
      for (const orderId of ["1", "2", "3"]) {
        await other.send.OrderApproved("inventory", { orderId });
        await expect.poll(() => handled.at(-1)).toBe(orderId);
      }
    });

    it("MSG-18 the triggers are created once, and removed with notify: false", async () => {
      const { orders } = await services();
      const made = await triggers();
      expect(made.map(({ name }) => name)).toEqual([
        "messages_outbox_notify",
        "messages_outbox_notify_ready",
      ]);
      await orders.init();
      expect(await triggers()).toEqual(made); // to replace them would wait for every transaction on the table
      await services(false);
      expect(await triggers()).toEqual([]);
    });

    it("MSG-18 a service with a wakeUp of its own neither listens nor changes the triggers", async () => {
      const { orders } = await services();
      const wakeUp = async () => async () => {};
      const messages = defineMessages({ OrderApproved: signal(textMember("orderId")) });
      const own = createService({
        serviceId: "orders",
        db,
        messages,
        schema,
        wakeUp,
        destinations: { inventory: { transport: "inprocess" as const } },
      });
      await own.init();
      own.start();
      expect(await triggers()).toHaveLength(2);
      await own.send.OrderApproved("inventory", { orderId: "1" });
      await expect.poll(() => orders.outboxStats()).toMatchObject({ due: 0 }); // its worker has polled
      expect(await listeners("messages_outbox")).toEqual([]);
      await own.close();
    });
  });
});
