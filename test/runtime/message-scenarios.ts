import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, inject, it } from "vitest";
import { timeBudget } from "../../src/base/async.js";
import { omitUndefined } from "../../src/base/defined.js";
import { uuidV7 } from "../../src/base/uuid.js";
import type { DispatchResult } from "../../src/dispatch/dispatch-run.js";
import { createService, type Envelope, listen, signEnvelope } from "../../src/messaging/index.js";
import type { Database } from "../../src/sql/dialect.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";
import { postgresHarness } from "../support/postgres-harness.js";
import { messages } from "./message-app/messages.js";

/** The functions of test/runtime/message-app in a cloud's runtime. */
export interface MessageFunctions {
  /** Where other services send to. */
  readonly address: string;
  /** The function's result. Rejects when it failed, or was killed at its time-out. */
  run(name: "dispatch" | "maintain"): Promise<unknown>;
  logs(): string;
  stop(): Promise<void>;
}

export interface MessageRuntime {
  readonly name: string;
  readonly database: "postgres" | "sqlite";
  /** False where it cannot be had. */
  readonly available?: boolean;
  /** Whether a request, too, is killed at the function's time-out. */
  readonly killsRequests?: boolean;
  start(env: Readonly<Record<string, string>>, timeoutMs: number): Promise<MessageFunctions>;
  /** The same, with settings by which the functions wake the dispatcher. */
  startWoken?(env: Readonly<Record<string, string>>, timeoutMs: number): Promise<WokenFunctions>;
}

export interface WokenFunctions extends MessageFunctions {
  /** How often the dispatcher was woken so far. */
  wakeUps(): number;
  /** Resolves when the runs that wake-ups started have ended, where that is known. */
  settled(): Promise<void>;
}

const secret = Buffer.alloc(24, 1).toString("base64");
const adminToken = "alice:test-secret-0123456789";
const otherSecret = Buffer.alloc(24, 2).toString("base64");

interface CloudDatabase {
  readonly db: Database;
  readonly schema: string | undefined;
  readonly url: string;
  readonly effects: string;
  close(): Promise<void>;
}

async function openDatabase(kind: MessageRuntime["database"]): Promise<CloudDatabase> {
  if (kind === "postgres") {
    const url = inject("postgresUrl");
    const { db, schema, close } = await postgresHarness(url).open();
    return { db, schema, url, effects: `${schema}.effects`, close };
  }
  const folder = await mkdtemp(join(tmpdir(), "oncebox-cloud-"));
  const file = join(folder, "cloud.db");
  const db = openSqlite({ file });
  const close = async () => {
    await db.close();
    await rm(folder, { recursive: true, force: true });
  };
  return { db, schema: undefined, url: `sqlite:${file}`, effects: "effects", close };
}

/** What every cloud's functions of messages do alike. `office` is a service in this process, `cloud` the one of functions. */
export function describeMessageFunctions(runtime: MessageRuntime): void {
  const title = `messages in ${runtime.name} on ${runtime.database}`;
  describe.skipIf(runtime.available === false)(title, () => {
    const closing: (() => Promise<unknown>)[] = [];
    afterEach(async () => {
      for (const close of closing.splice(0).reverse()) await close();
    });

    /** Everything but the functions. The service `cloud` is here a view on the tables of the functions. */
    const opened = async () => {
      const data = await openDatabase(runtime.database);
      closing.push(data.close);
      let delayMs = 0;
      const listener = await listen({
        address: "http://127.0.0.1:0/_rf/receive",
        fetch: async (request) => {
          await sleep(delayMs);
          return office.receiver.fetch(request);
        },
      });
      closing.push(() => listener.close());
      const cloud = createService({
        serviceId: "cloud",
        db: data.db,
        ...omitUndefined({ schema: data.schema }),
        messages,
        destinations: { office: { address: listener.address, secrets: [secret] } },
      });
      await cloud.init();
      const raw = (text: string) => data.db.driver.query({ name: "test", text, unprepared: true }, {});
      await raw(`create table ${data.effects} (message text not null)`);
      const env = {
        TEST_DATABASE_URL: data.url,
        TEST_SECRET: secret,
        TEST_OFFICE: listener.address,
        TEST_EFFECTS: data.effects,
        ...omitUndefined({ TEST_SCHEMA: data.schema }),
      };

      const officeDb = openSqlite({ file: ":memory:" });
      closing.push(() => officeDb.close());
      const notes: number[] = [];
      const responses: string[] = [];
      const officeAt = (address: string) =>
        createService({
          serviceId: "office",
          db: officeDb,
          messages,
          destinations: { cloud: { address, secrets: [secret], endpoints: ["Note"] } },
          receive: { Note: ({ number }) => void notes.push(number) },
          onResponse: { Reserve: ({ reservation }) => void responses.push(reservation) },
        });
      let office = officeAt("http://127.0.0.1:9");
      await office.init();

      return {
        env,
        cloud,
        notes,
        responses,
        delayEach(ms: number) {
          delayMs = ms;
        },
        effects: async () => (await raw(`select message from ${data.effects}`)).map(({ message }) => message),
        async start(given: Readonly<Record<string, string>> = {}, timeoutMs = 60_000) {
          const functions = await runtime.start({ ...env, ...given }, timeoutMs);
          closing.push(() => functions.stop());
          office = officeAt(functions.address);
          closing.push(() => office.close());
          return { functions, office };
        },
        async startWoken(timeoutMs: number) {
          const functions = await runtime.startWoken!(env, timeoutMs);
          closing.push(() => functions.stop());
          return functions;
        },
      };
    };

    const reserve = (item: string, messageId = uuidV7()): Envelope => ({
      messageId,
      correlationId: null,
      sourceServiceId: "office",
      messageType: "Command",
      endpoint: "Reserve",
      payload: { item },
      headers: {},
    });
    const signed = (message: Envelope, key = secret) =>
      signEnvelope(message, { destination: "cloud", secrets: [key], now: new Date() });
    const post = async ({ address }: MessageFunctions, body: string) => {
      const headers = { "Content-Type": "application/json" };
      const response = await fetch(address, { method: "POST", headers, body });
      const text = await response.text();
      return { status: response.status, body: text === "" ? undefined : (JSON.parse(text) as unknown) };
    };

    it("MSG-02 MSG-05 FUN-03 a command is handled once, a duplicate gets the stored response, and the outbox is sent and cleaned up", async () => {
      const { start, cloud, effects, responses } = await opened();
      const { functions, office } = await start();
      const messageId = await office.send.Reserve("cloud", { item: "Zoë 🦊" });
      expect(await office.dispatch(timeBudget(30_000))).toMatchObject({ acked: 1, stopped: "drained" });
      expect(await effects()).toEqual(["Zoë 🦊"]);
      expect(responses).toHaveLength(1);

      for (let time = 0; time < 2; time++) {
        expect(await post(functions, signed(reserve("Zoë 🦊", messageId)))).toEqual({
          status: 200,
          body: { acknowledged: true, duplicateDetected: true, payload: { reservation: responses[0] } },
        });
      }
      expect(await effects()).toEqual(["Zoë 🦊"]);

      // The response is also a message of its own, because the office is a destination.
      expect((await cloud.outboxStats()).counts).toMatchObject({ Pending: 1 });
      expect(await functions.run("dispatch")).toMatchObject({ acked: 1, stopped: "drained" });
      expect((await cloud.outboxStats()).counts).toMatchObject({ Pending: 0, Sent: 1 });
      expect(responses).toHaveLength(1);
      expect(await functions.run("maintain")).toMatchObject({ sent: { done: 1 }, inbox: { done: 0 } });
      expect((await cloud.outboxStats()).counts).toMatchObject({ Sent: 0 });
      expect(functions.logs()).not.toContain(secret);
    });

    it("MSG-05 FUN-05 deliveries of one message at the same time run the handler once", async () => {
      const { start, effects } = await opened();
      const { functions } = await start();
      const message = reserve("chair");
      const answers = await Promise.all([1, 2, 3].map(() => post(functions, signed(message))));
      expect(answers.map(({ status }) => status)).toContain(200);
      expect(await effects()).toEqual(["chair"]);
      expect(await post(functions, signed(message))).toMatchObject({
        status: 200,
        body: { duplicateDetected: true },
      });
    });

    it("MSG-08 FUN-01 a wrong signature, a changed byte and a malformed body are refused, and nothing is stored", async () => {
      const { start, cloud, effects } = await opened();
      const { functions } = await start();
      const refused = { status: 401, body: undefined };
      expect(await post(functions, signed(reserve("chair"), otherSecret))).toEqual(refused);
      expect(await post(functions, signed(reserve("chair")).replace('"chair"', '"choir"'))).toEqual(refused);
      expect(await post(functions, "{}")).toMatchObject({ status: 400 });
      expect(await effects()).toEqual([]);
      expect(await cloud.inboxStats()).toMatchObject({ size: 0 });
      expect(functions.logs()).toContain("HMAC verification failed");
      expect(functions.logs()).not.toContain(otherSecret);
      expect(await post(functions, signed(reserve("chair")))).toMatchObject({ status: 200 });
      expect(await cloud.inboxStats()).toMatchObject({ size: 1 });
    });

    it("MSG-14 MSG-17 MSG-20 FUN-03 the diagnostics are closed without the admin token, and retry a failed message with a new TTL", async () => {
      const { start, cloud } = await opened();
      const { functions } = await start({ TEST_ADMIN_TOKENS: adminToken });
      const ask = async (path: string, { method = "GET", token = adminToken } = {}) => {
        const headers: Record<string, string> = token === "" ? {} : { authorization: `Bearer ${token}` };
        const address = functions.address.replace(/receive$/, path);
        const response = await fetch(address, { method, headers });
        const text = await response.text();
        return { status: response.status, json: text === "" ? undefined : JSON.parse(text) };
      };
      // The office refuses the response to a command that it has not sent, so that is Failed.
      const message = signed(reserve("chair"));
      for (let time = 0; time < 2; time++) await post(functions, message);
      await functions.run("dispatch");
      const [failed] = (await cloud.list({ state: "Failed" })).messages;

      for (const token of ["", "alice:a-wrong-secret-0123456789"]) {
        for (const path of ["outbox/stats", "outbox/failed", "inbox/stats"])
          expect((await ask(path, { token })).status, path).toBe(401);
        const path = `outbox/${failed!.messageId}/retry`;
        expect((await ask(path, { method: "POST", token })).status).toBe(401);
      }
      expect(await ask("health", { token: "" })).toEqual({ status: 200, json: { status: "ok" } });
      expect((await ask("health")).json).toMatchObject({ status: "ok", service: "cloud" });
      expect((await ask("outbox/stats")).json.counts).toEqual({
        Pending: 0,
        Sending: 0,
        Sent: 0,
        Failed: 1,
        Expired: 0,
      });
      expect((await ask("outbox/failed")).json.messages).toMatchObject([{ messageId: failed!.messageId }]);
      expect((await ask("inbox/stats")).json).toMatchObject({ size: 1, duplicateRate: 0.5 });
      const retried = await ask(`outbox/${failed!.messageId}/retry`, { method: "POST" });
      expect(retried).toMatchObject({ status: 200, json: { state: "Pending" } });
      const { expiresAt } = (await cloud.get(failed!.messageId))!;
      expect(expiresAt!.getTime()).toBeGreaterThan(failed!.expiresAt!.getTime());
      expect(functions.logs()).toContain("POST outbox/{messageId}/retry");
      for (const hidden of [adminToken, "a-wrong-secret"]) expect(functions.logs()).not.toContain(hidden);
    });

    it("MSG-02 FUN-03 a run ends before the function's time does; the next one sends the rest, and each message arrives once", async () => {
      const { start, cloud, notes, delayEach } = await opened();
      const numbers = Array.from({ length: 200 }, (_, number) => number);
      await cloud.transaction(async (tx) => {
        for (const number of numbers) await cloud.send.Note("office", { number }, { tx });
      });
      delayEach(300);
      const { functions } = await start({}, 5_000);
      const report = (await functions.run("dispatch")) as DispatchResult;
      expect(report).toMatchObject({ stopped: "time", lost: 0 });
      expect(report.acked).toBeGreaterThan(0);
      const { counts } = await cloud.outboxStats();
      expect(counts).toMatchObject({ Sending: 0, Sent: report.acked, Pending: 200 - report.acked });
      delayEach(0);
      await expect
        .poll(async () => ((await functions.run("dispatch")) as DispatchResult).stopped, { timeout: 60_000 })
        .toBe("drained");
      expect(notes.toSorted((a, b) => a - b)).toEqual(numbers);
    });

    it.skipIf(runtime.startWoken === undefined)(
      "MSG-02 FUN-06 what a handler sends wakes the dispatcher, and a run whose time is up wakes its successor",
      async () => {
        const { startWoken, cloud, notes, delayEach } = await opened();
        const functions = await startWoken(3_000);
        // The office refuses a response to a command that it has not sent, so it is Failed. It was dispatched all the same.
        const sent = async () => (await cloud.outboxStats()).counts.Failed;
        // On a busy machine a wake-up may be late, and is given up: the timer goes on. Then another message is sent.
        for (let tries = 0; tries < 20 && (await sent()) === 0; tries++) {
          expect(await post(functions, signed(reserve(`chair ${tries}`)))).toMatchObject({ status: 200 });
          await functions.settled();
          await expect
            .poll(sent, { timeout: 2_000 })
            .toBeGreaterThan(0)
            .catch(() => {});
        }
        expect(await sent()).toBeGreaterThan(0);
        await expect.poll(() => functions.wakeUps()).toBeGreaterThan(0);
        const before = functions.wakeUps();

        const numbers = Array.from({ length: 100 }, (_, number) => number);
        await cloud.transaction(async (tx) => {
          for (const number of numbers) await cloud.send.Note("office", { number }, { tx });
        });
        delayEach(300);
        expect(await functions.run("dispatch")).toMatchObject({ stopped: "time" });
        const all = async () => new Set(notes).size;
        // On a busy machine a run may send nothing, and then it wakes no successor.
        for (let tries = 0; tries < 20 && (await all()) < numbers.length; tries++) {
          await functions.settled();
          await expect
            .poll(all, { timeout: 5_000 })
            .toBe(numbers.length)
            .catch(() => functions.run("dispatch"));
        }
        expect(await all()).toBe(numbers.length);
        await expect.poll(() => functions.wakeUps()).toBeGreaterThan(before);
      },
    );

    it.skipIf(!runtime.killsRequests)(
      "MSG-05 MSG-16 a function that is killed at its time-out while it handles a message leaves nothing, and the next delivery is handled",
      async () => {
        const { start, cloud, effects } = await opened();
        const { functions: hanging } = await start({ TEST_HANGS: "chair" }, 2_000);
        const message = reserve("chair");
        expect(await post(hanging, signed(message))).toMatchObject({ status: 500 });
        expect(await effects()).toEqual([]);
        expect(await cloud.inboxStats()).toMatchObject({ size: 0 });
        const { functions } = await start();
        expect(await post(functions, signed(message))).toMatchObject({
          status: 200,
          body: { duplicateDetected: false },
        });
        expect(await effects()).toEqual(["chair"]);
      },
    );

    it("MSG-12 FUN-12 a service that cannot be created: 503, and the errors of all functions say why", async () => {
      const { start } = await opened();
      const { functions } = await start({ TEST_SECRET: "short" });
      expect(await post(functions, signed(reserve("chair")))).toMatchObject({ status: 503 });
      const why = /The service \\*"cloud\\*" cannot be created:.*destinations\.office\.secrets/s;
      await expect.poll(() => functions.logs()).toMatch(why); // it may come after the response
      for (const name of ["dispatch", "maintain"] as const)
        await expect(functions.run(name)).rejects.toThrow(why);
    });
  });
}
