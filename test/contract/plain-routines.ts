import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import { timeBudget } from "../../src/base/async.js";
import { createDispatcher } from "../../src/dispatch/dispatcher.js";
import { createInbox } from "../../src/inbox/inbox.js";
import { createOutbox } from "../../src/outbox/outbox.js";
import type { OutboxMessage } from "../../src/queue/message.js";
import { migrate } from "../../src/sql/migrate.js";
import type { ContractHarness } from "./harness.js";
import { createInboxContext } from "./inbox/support.js";
import { createOutboxContext } from "./outbox/support.js";
import { inSchemaOf, isBabelfish, namesOf } from "./support/database.js";
import { callInside, callPlainly, type PlainMessage, plainCall } from "./support/plain-calls.js";

const realTime = true;

/** What the routines for services in other languages must do on any database (ADD-26). */
export function plainRoutineContract(harness: ContractHarness): void {
  describe(`${harness.name}: messages from SQL`, () => {
    enqueueTests(harness);
    receiveTests(harness);
  });
}

/** Values that are refused, and what the refusal names. */
const refused: readonly PlainMessage[] = [
  { topic: "" },
  { topic: null },
  { topic: "ends with a space " },
  { topic: "x".repeat(256) },
  { payload: null },
  { type: "" },
  { type: "t " },
  { partition_key: "" },
  { partition_key: "k " },
  { correlation_id: "x".repeat(300) },
  { headers: "no JSON" },
  { headers: "[]" },
  { headers: '{"a":1}' },
  { due_at: new Date("1969-12-31T00:00:00Z") },
  { expires_at: new Date("9999-01-01T00:00:00Z") },
];

const refusedHashes: readonly PlainMessage[] = [
  "no digits",
  "abc",
  "sha256:",
  "sha256:abc",
  "sha256:zz",
  ":ab",
  "_a:ab",
  "a b:ab",
  "a:b:ab",
  "sha256:ab ",
  `${"a".repeat(33)}:ab`,
].map((hash) => ({ hash }));

function enqueueTests(harness: ContractHarness): void {
  describe("enqueue", () => {
    const context = createOutboxContext(harness);
    const { database } = context;
    const add = (names: Parameters<typeof callPlainly>[1], message: PlainMessage) =>
      callPlainly(database(), names, { topic: "receipt.send", payload: "{}", ...message });

    it("ADD-26 a message is dispatched as others are, with an id that the routine makes and returns", async () => {
      const { outbox, names } = await context.box({ realTime });
      const id = await add(names, { payload: '{"invoice":7}' });
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      expect(await outbox.get({ id })).toMatchObject({
        id,
        messageId: id,
        topic: "receipt.send",
        attempt: 0,
      });
      const handled: unknown[] = [];
      const dispatcher = createDispatcher<OutboxMessage>({
        handlers: { "receipt.send": ({ payload }) => void handled.push(payload) },
      });
      await dispatcher.run(outbox, timeBudget(60_000));
      expect(handled).toEqual(['{"invoice":7}']);
      expect((await outbox.stats()).counts).toMatchObject({ Ready: 0, Done: 1 });
    });

    it("ADD-26 MID-12 every parameter is stored, and a second call with the same id adds nothing", async () => {
      const { outbox, names } = await context.box({ realTime });
      const [id, messageId] = [randomUUID(), randomUUID()];
      const message = {
        id,
        message_id: messageId,
        type: "com.example.receipt",
        payload: "it's ü 😀",
        correlation_id: "c",
        headers: '{"traceparent":"00-1"}',
        due_at: new Date("2031-02-03T04:05:06.789Z"),
        expires_at: new Date("2032-02-03T04:05:06.789Z"),
      };
      expect(await add(names, message)).toBe(id);
      expect(await add(names, { ...message, payload: "another" })).toBe(id);
      expect(await outbox.get({ id })).toMatchObject({
        messageId,
        topic: "receipt.send",
        type: "com.example.receipt",
        payload: "it's ü 😀",
        correlationId: "c",
        headers: { traceparent: "00-1" },
        dueAt: message.due_at,
        expiresAt: message.expires_at,
        naturalKey: null,
        partitionKey: null,
      });
      expect((await outbox.stats()).counts.Ready).toBe(1);
      expect(await outbox.claim({ owner: (await context.box()).owner })).toEqual([]); // not due yet
    });

    it("ADD-26 a name may end with any character but a space", async () => {
      const { outbox, names } = await context.box({ realTime });
      const topic = "receipt 😀";
      const id = await add(names, { topic, correlation_id: "😀", partition_key: "\u3000" });
      expect(await outbox.get({ id })).toMatchObject({ topic, correlationId: "😀", partitionKey: "\u3000" });
    });

    it("ADD-26 an empty correlation id counts as absent, and an empty payload is a payload", async () => {
      const { outbox, names } = await context.box({ realTime });
      const id = await add(names, { payload: "", correlation_id: "" });
      expect(await outbox.get({ id })).toMatchObject({ payload: "", correlationId: null });
    });

    it("ADD-26 the message is in the caller's transaction: it goes with a rollback and comes with the commit", async () => {
      const { outbox, names, owner } = await context.box({ realTime });
      for (const end of ["rollback", "commit"] as const) {
        const own = await database().begin();
        await callInside(own, database(), names, { topic: "t", payload: end, partition_key: "k" });
        await callInside(own, database(), names, { topic: "t", payload: `${end} 2`, natural_key: "n" });
        await own[end]();
      }
      const claimed = await outbox.claim({ owner });
      expect(claimed.map(({ payload }) => payload).sort()).toEqual(["commit", "commit 2"]);
    });

    it("ADD-26 ADD-01 messages of one partition key keep their order, whoever enqueued them", async () => {
      const { outbox, names, owner } = await context.box({ realTime });
      const partitionKey = "customer-1";
      const bySql = (payload: string) => add(names, { payload, partition_key: partitionKey });
      const byCode = (payload: string) => outbox.enqueue({ topic: "t", payload, partitionKey });
      await bySql("1");
      await byCode("2");
      await bySql("3");
      const own = await database().begin();
      await callInside(own, database(), names, { topic: "t", payload: "4", partition_key: partitionKey });
      await callInside(own, database(), names, { topic: "t", payload: "5", partition_key: partitionKey });
      await own.commit();
      await byCode("6");
      const seen: string[] = [];
      for (let round = 0; round < 6; round++) {
        const claimed = await outbox.claim({ owner });
        expect(claimed).toHaveLength(1);
        seen.push(claimed[0]!.payload);
        await outbox.ack(owner, claimed);
      }
      expect(seen).toEqual(["1", "2", "3", "4", "5", "6"]);
    });

    it("ADD-26 ADD-18 a natural key is enqueued once, whoever comes first", async () => {
      const { outbox, names } = await context.box({ realTime });
      const topic = "receipt.send";
      const first = await add(names, { natural_key: "invoice-1" });
      expect(await add(names, { natural_key: "invoice-1", payload: "again" })).toBe(first);
      const byCode = await outbox.enqueueOnce({ topic, payload: "{}", naturalKey: "invoice-1" });
      expect(byCode).toEqual({ id: first, existing: true });
      const { id } = await outbox.enqueueOnce({ topic, payload: "{}", naturalKey: "invoice-2" });
      expect(await add(names, { natural_key: "invoice-2" })).toBe(id);
      expect(await add(names, { natural_key: "invoice-2", topic: "another" })).not.toBe(id);
      expect((await outbox.stats()).counts.Ready).toBe(3);
    });

    for (const wrong of [...refused, { natural_key: "" }])
      it(`ADD-26 refuses ${JSON.stringify(wrong).slice(0, 40)} and names it`, async () => {
        const { outbox, names } = await context.box({ realTime });
        const call = plainCall(database(), names, { topic: "t", payload: "{}", ...wrong });
        await expect(database().raw(call)).rejects.toThrow(`${Object.keys(wrong)[0]} must`);
        expect((await outbox.stats()).counts.Ready).toBe(0);
      });

    it("ADD-26 the routines have the names of their queues, with any characters", async (test) => {
      test.skip(await isBabelfish(database()), "needs SQL Server's quoted names");
      const tables = { inbox: `in'b"]x`, outbox: "o'ut b" };
      await migrate(database().db, { ...inSchemaOf(database()), ...tables });
      const names = namesOf(database(), "outbox", tables.outbox);
      const id = await add(names, { partition_key: "k" });
      const outbox = createOutbox(database().db, { ...inSchemaOf(database()), table: tables.outbox });
      expect(await outbox.get({ id })).toMatchObject({ partitionKey: "k" });
      const inbox = createInbox(database().db, { ...inSchemaOf(database()), table: tables.inbox });
      const delivery = { source: "s", message_id: "1", topic: "t", payload: "{}" };
      expect(await callPlainly(database(), namesOf(database(), "inbox", tables.inbox), delivery)).toBe(
        "enqueued",
      );
      expect(await inbox.get({ source: "s", messageId: "1" })).toMatchObject({ topic: "t" });
    });
  });
}

function receiveTests(harness: ContractHarness): void {
  describe("receive", () => {
    const context = createInboxContext(harness);
    const { database } = context;
    const delivery = { source: "erp", message_id: "1", topic: "order.created", payload: "{}" };
    const key = { source: "erp", messageId: "1" };

    it("ADD-26 a message is stored once, whoever delivers it, and the outcome says what happened", async () => {
      const { inbox, names, owner } = await context.freshInbox({ realTime });
      const receive = (more: PlainMessage = {}) => callPlainly(database(), names, { ...delivery, ...more });
      expect(await receive({ hash: "sha256:a0" })).toBe("enqueued");
      expect(await receive({ hash: "sha256:a0" })).toBe("duplicate");
      expect(await inbox.receive({ ...key, topic: "order.created", payload: "{}", hash: "SHA256:A0" })).toBe(
        "duplicate",
      );
      expect(await receive({ hash: "sha256:b0", payload: "newer" })).toBe("conflict");
      expect(await inbox.get(key)).toMatchObject({ payload: "{}", deliveries: 4 });

      const claimed = await inbox.claim({ owner });
      expect(claimed).toHaveLength(1);
      await inbox.ack(owner, claimed);
      expect(await receive({ hash: "sha256:a0", payload: "too late" })).toBe("done");
      expect(await receive({ hash: "sha256:c0", payload: "too late" })).toBe("conflict");
      expect(await inbox.get(key)).toMatchObject({ state: "Done", payload: "{}" });

      await inbox.markDead({ source: "erp", messageId: "2" }, "no");
      expect(await receive({ message_id: "2" })).toBe("dead");
      expect(await receive({ message_id: "3" })).toBe("enqueued");
    });

    it("ADD-26 MID-12 every parameter is stored", async () => {
      const { inbox, names } = await context.freshInbox({ realTime });
      const [dueAt, expiresAt] = [new Date("2031-02-03T04:05:06.789Z"), new Date("2032-02-03T04:05:06.789Z")];
      const message = {
        ...delivery,
        type: "com.example.order",
        payload: "it's ü 😀",
        hash: "SHA-256:0A1b",
        correlation_id: "c",
        headers: '{"a":"b"}',
        due_at: dueAt,
        expires_at: expiresAt,
        partition_key: "k",
      };
      expect(await callPlainly(database(), names, message)).toBe("enqueued");
      const stored = await inbox.get(key);
      expect(stored).toMatchObject({ topic: "order.created", payload: "it's ü 😀", correlationId: "c" });
      expect(stored!.type).toBe("com.example.order");
      expect(stored).toMatchObject({ headers: { a: "b" }, dueAt, expiresAt, partitionKey: "k" });
      expect(stored!.hash).toBe("sha-256:0a1b");
    });

    it("ADD-26 hashes of two algorithms are not compared, and one without an algorithm is of bytes", async () => {
      const { inbox, names } = await context.freshInbox({ realTime });
      const receive = (hash: string) => callPlainly(database(), names, { ...delivery, hash });
      expect(await receive("sha256:a0")).toBe("enqueued");
      expect(await receive("md5:b0")).toBe("duplicate");
      expect(await receive("C0FFEE")).toBe("duplicate");
      expect((await inbox.get(key))!.hash).toBe("sha256:a0"); // a known message stays as it is
      expect(await receive("sha256:b0")).toBe("conflict");
    });

    for (const state of ["Processing", "Dead"] as const)
      it(`ADD-26 a known message in the state ${state} keeps its content and times, whatever a redelivery brings`, async () => {
        const { inbox, names, owner } = await context.freshInbox({ realTime });
        const content = {
          topic: "order.created",
          type: "mine",
          payload: "mine",
          correlationId: "c",
          headers: { a: "b" },
        };
        await inbox.receive({ ...key, ...content, hash: "sha256:a0" });
        if (state === "Dead") await inbox.markDead(key, "no");
        const other = {
          ...delivery,
          topic: "order.refunded",
          type: "theirs",
          payload: "theirs",
          correlation_id: "d",
          headers: "{}",
          due_at: new Date("2031-01-01T00:00:00Z"),
          expires_at: new Date("1971-01-01T00:00:00Z"),
          partition_key: "k",
        };
        const known = state === "Dead" ? "dead" : "duplicate";
        expect(await callPlainly(database(), names, other)).toBe(known);
        expect(await callPlainly(database(), names, { ...other, hash: "sha256:b0" })).toBe("conflict");
        expect(await callPlainly(database(), names, { ...other, hash: "sha256:a0" })).toBe(known);
        const unchanged = { ...content, dueAt: null, expiresAt: null, partitionKey: null };
        expect(await inbox.get(key)).toMatchObject({ ...unchanged, state, deliveries: 4 });
        if (state === "Processing") expect(await inbox.claim({ owner })).toMatchObject([unchanged]);
      });

    it("ADD-26 a redelivery enqueues a message that was only seen", async () => {
      const { inbox, names, owner } = await context.freshInbox({ realTime });
      expect(await inbox.alreadyProcessed({ source: "erp", messageId: "seen" })).toBe(false);
      await callPlainly(database(), names, { ...delivery, message_id: "seen", partition_key: "k" });
      expect(await inbox.claim({ owner })).toMatchObject([
        { messageId: "seen", topic: "order.created", partitionKey: "k" },
      ]);
    });

    it("ADD-26 the message is in the caller's transaction, and deliveries of one partition key keep their order", async () => {
      const { inbox, names, owner } = await context.freshInbox({ realTime });
      for (const end of ["rollback", "commit"] as const) {
        const own = await database().begin();
        for (const number of ["1", "2"])
          await callInside(own, database(), names, {
            ...delivery,
            message_id: `${end} ${number}`,
            partition_key: "k",
          });
        await own[end]();
      }
      await inbox.receive({ ...key, messageId: "code", topic: "t", payload: "", partitionKey: "k" });
      await callPlainly(database(), names, { ...delivery, message_id: "last", partition_key: "k" });
      const seen: string[] = [];
      for (let round = 0; round < 4; round++) {
        const claimed = await inbox.claim({ owner });
        seen.push(...claimed.map(({ messageId }) => messageId));
        await inbox.ack(owner, claimed);
      }
      expect(seen).toEqual(["commit 1", "commit 2", "code", "last"]);
    });

    for (const wrong of [
      ...refused,
      { source: "" },
      { source: "s " },
      { message_id: "x".repeat(256) },
      ...refusedHashes,
    ])
      it(`ADD-26 refuses ${JSON.stringify(wrong).slice(0, 40)} and names it`, async () => {
        const { inbox, names } = await context.freshInbox({ realTime });
        const call = plainCall(database(), names, { ...delivery, ...wrong });
        await expect(database().raw(call)).rejects.toThrow(`${Object.keys(wrong)[0]} must`);
        expect((await inbox.stats()).counts.Processing).toBe(0);
      });
  });
}
