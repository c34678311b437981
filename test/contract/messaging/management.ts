import { expect, it } from "vitest";
import { timeBudget } from "../../../src/base/async.js";
import { uuidV7 } from "../../../src/base/uuid.js";
import { type ContractHarness, skipUnless } from "../harness.js";
import { namesOf, shownRows } from "../support/database.js";
import { gate } from "../support/gate.js";
import { fieldsOf } from "../support/recording-logger.js";
import { type WatchedDatabase, watched } from "../support/watched.js";
import { approved, describePairs, dispatch, envelope, type TestServiceOptions } from "./support.js";

export function messagingManagementContract(harness: ContractHarness): void {
  describePairs(harness, "management", (pair) => {
    it("MSG-13 MSG-15 MSG-20 each step has its log line and its metric, without payloads", async () => {
      const { orders, inventory, fates, clock, log, metrics, dead } = await pair({
        orders: { retry: { maxRetries: 1, jitterMs: 0 } },
        inventory: { receive: { OrderApproved: () => {} } },
      });
      const send = (ttlMs?: number) =>
        orders.send.OrderApproved("inventory", { orderId: "secret-order" }, { ttlMs });
      fates.push("unanswered", "arrives", "lost", "lost");
      const sent = await send();
      await dispatch(orders);
      clock.advance(2_000);
      await dispatch(orders);
      const failed = await send();
      await dispatch(orders);
      clock.advance(2_000);
      await dispatch(orders);
      const expired = await send(1_000);
      clock.advance(1_000);
      await dispatch(orders);
      await expect.poll(() => dead).toHaveLength(2);
      await orders.maintain(timeBudget(60_000));
      await inventory.maintain(timeBudget(60_000));

      const way = { destination: "inventory", endpoint: "OrderApproved" };
      const came = { messageId: sent, sourceServiceId: "orders", endpoint: "OrderApproved" };
      const lines = (level: "info" | "warn" | "error", text: string) => fieldsOf(log, level, text);
      expect(lines("info", "Outbox: message enqueued")).toMatchObject(
        [sent, failed, expired].map((messageId) => ({ messageId, ...way, service: "orders" })),
      );
      expect(lines("info", "Outbox: message sent successfully")).toMatchObject([
        { messageId: sent, durationMs: expect.any(Number) },
      ]);
      expect(lines("warn", "Outbox: message send failed")).toMatchObject([
        { messageId: sent, retryCount: 1, maxRetries: 1, error: "Error" },
        { messageId: failed, retryCount: 1, maxRetries: 1, error: "Error" },
      ]);
      expect(lines("error", "Outbox: message permanently failed")).toMatchObject([
        { messageId: failed, maxRetries: 1 },
      ]);
      expect(lines("error", "Outbox: message expired")).toMatchObject([{ messageId: expired }]);
      expect(lines("info", "Inbox: message processed")).toMatchObject([came]);
      expect(lines("warn", "Inbox: duplicate detected")).toMatchObject([came]);
      expect(JSON.stringify(log)).not.toContain("secret-order");

      const counted = (name: string) => metrics.filter((one) => one.name === name).length;
      expect(counted("rf_outbox_send_duration_ms")).toBe(4);
      expect(counted("messaging.client.operation.duration")).toBe(4);
      expect(counted("rf_outbox_retry_count")).toBe(2);
      expect(counted("rf_outbox_failed_count")).toBe(1);
      expect(counted("rf_outbox_expired_count")).toBe(1);
      expect(counted("rf_inbox_duplicate_count")).toBe(1);
      expect(counted("rf_inbox_process_duration_ms")).toBe(1);
      expect(counted("messaging.process.duration")).toBe(1);
      expect(metrics.filter(({ name }) => /^rf_(outbox_pending_count|inbox_size)$/.test(name))).toMatchObject(
        [
          { name: "rf_outbox_pending_count", value: 0 },
          { name: "rf_inbox_size", value: 0 },
          { name: "rf_outbox_pending_count", value: 0 },
          { name: "rf_inbox_size", value: 1 },
        ],
      );
    });

    it("MSG-15 each retry is one warning and the end is one error, both with the reason; a message that waits for the circuit breaker has no line", async () => {
      const { orders, fates, clock, log, dead } = await pair({
        orders: { retry: { maxRetries: 2, jitterMs: 0 }, breaker: { failures: 2, openMs: 60_000 } },
      });
      const refusal = { acknowledged: false, duplicateDetected: false };
      const soldOut = { ...refusal, error: "sold out: order secret-order" };
      fates.push(soldOut, soldOut, soldOut);
      const refused = await orders.send.OrderApproved("inventory", { orderId: "secret-order" });
      for (let attempt = 0; attempt < 3; attempt++) {
        await dispatch(orders);
        clock.advance(10_000);
      }
      fates.push({ ...refusal, error: "no such order", permanent: true });
      const ended = await orders.send.OrderApproved("inventory", { orderId: "2" });
      await dispatch(orders);
      fates.push("lost", "lost");
      const [lost, alsoLost] = [
        await orders.send.OrderApproved("inventory", { orderId: "3" }),
        await orders.send.OrderApproved("inventory", { orderId: "4" }),
      ];
      await dispatch(orders);
      clock.advance(5_000); // both are due again, and the breaker is open
      await orders.send.OrderApproved("inventory", { orderId: "5" });
      await dispatch(orders);
      await expect.poll(() => dead).toHaveLength(2);

      const said = log
        .filter(({ level }) => level === "warn" || level === "error")
        .map(({ level, message, fields: { messageId, retryCount, error } }) => [
          level,
          message,
          messageId,
          retryCount,
          error,
        ]);
      const warning = ["warn", "Outbox: message send failed"];
      const end = ["error", "Outbox: message permanently failed"];
      const reason = "sold out: order [payload]";
      expect(said.toSorted()).toEqual(
        [
          [...warning, refused, 1, reason],
          [...warning, refused, 2, reason],
          [...end, refused, undefined, reason],
          [...end, ended, undefined, "no such order"],
          [...warning, lost, 1, "Error"],
          [...warning, alsoLost, 1, "Error"],
          ["error", "circuit breaker opened", undefined, undefined, undefined],
        ].toSorted(),
      );
      expect((await orders.outboxStats()).counts).toMatchObject({ Pending: 3 });
    });

    it("MSG-17 a view shows the messages with their states", async () => {
      const past = () => new Date(Date.UTC(2020, 0, 1)); // the view has the database's own time
      const { database, orders, fates, clock } = await pair({
        orders: { retry: { maxRetries: 0, jitterMs: 0 }, table: "viewed", breaker: false },
      });
      const old = await pair({
        orders: { retry: { maxRetries: 0 }, table: "viewed", breaker: false, clock: past },
      });
      const ids = [];
      const fatesOfEach = [{ acknowledged: true, duplicateDetected: false }, "lost"] as const;
      for (const fate of fatesOfEach) {
        ids.push(await orders.send.OrderApproved("inventory", { orderId: "7" }));
        fates.push(fate);
        await dispatch(orders);
      }
      ids.push(await old.orders.send.OrderApproved("inventory", { orderId: "8" }));
      old.fates.push("lost");
      await dispatch(old.orders);
      ids.push(await orders.send.OrderApproved("inventory", { orderId: "9" }, { maxRetries: 4 }));
      const unlimited = { maxRetries: Number.POSITIVE_INFINITY };
      ids.push(await orders.send.OrderApproved("inventory", { orderId: "10" }, unlimited));
      const names = namesOf(database, "outbox", "viewed_outbox");
      const view = names.object(database.db.dialect.name === "postgres" ? "_sent" : "Sent");
      const rows = await shownRows(database, `select * from ${view}`);
      const byId = new Map(rows.map((row) => [String(row.MessageId).toLowerCase(), row]));
      const shown = ids.map((id) => byId.get(id)!);
      expect(shown.map(({ State }) => State)).toEqual(["Sent", "Failed", "Expired", "Pending", "Pending"]);
      expect(rows[0]).toMatchObject({
        MessageType: "Signal",
        Destination: "inventory",
        Endpoint: "OrderApproved",
        CorrelationId: null,
      });
      const count = (value: unknown) => (value === null ? null : Number(value));
      expect(shown.map(({ RetryCount, MaxRetries }) => [RetryCount, MaxRetries].map(count))).toEqual([
        [0, 0],
        [0, 0],
        [0, 0],
        [0, 4],
        [0, null],
      ]);
      const time = (value: unknown) =>
        value === null ? null : new Date(value instanceof Date ? value : String(value));
      expect(shown.map(({ LastAttemptAt }) => time(LastAttemptAt))).toEqual([
        ...[clock(), clock(), past()],
        ...[null, null],
      ]);
      expect(shown.map(({ SentAt }) => time(SentAt))).toEqual([clock(), null, null, null, null]);
      expect(shown.map(({ NextRetryAt }) => NextRetryAt)).toEqual([null, null, null, null, null]);
      expect(shown.map(({ LastError }) => LastError)).toEqual([
        null,
        "PermanentFailure: Error",
        "PermanentFailure: Error",
        null,
        null,
      ]);

      fates.push("lost", "lost");
      await dispatch(orders);
      for (const id of ids.slice(3)) {
        const [retried] = await shownRows(database, `select * from ${view} where MessageId = '${id}'`);
        expect(retried).toMatchObject({ State: "Pending" });
        expect(Number(retried!.RetryCount)).toBe(1);
        expect(time(retried!.NextRetryAt)).toEqual(new Date(clock().getTime() + 2_000));
      }
    });

    it("MSG-10 MSG-17 Failed and Expired messages are kept for failedRetentionMs, or for ever without it", async () => {
      for (const retention of [{}, { failedRetentionMs: 2 * 86_400_000 }]) {
        const { orders, fates, clock } = await pair({
          orders: { retry: { maxRetries: 0 }, ...retention },
        });
        await orders.send.OrderApproved("inventory", { orderId: "7" });
        fates.push("lost");
        await dispatch(orders);
        clock.advance(2 * 86_400_000);
        await orders.maintain(timeBudget(60_000));
        expect(await orders.outboxStats()).toMatchObject({ counts: { Expired: 1 } });
        clock.advance(1);
        const { sent } = await orders.maintain(timeBudget(60_000));
        expect(sent).toMatchObject({ done: 0, dead: Object.keys(retention).length });
      }
    });

    it("MSG-02 MSG-18 a started service is woken by the commit, sends by itself, and settles everything before it stops", async () => {
      const handled: string[] = [];
      const made = await pair({
        orders: { pollMs: 60_000 }, // only a wake-up is in time
        inventory: { receive: { OrderApproved: ({ orderId }) => void handled.push(orderId) } },
      });
      const { orders } = made;
      orders.start();
      expect(() => orders.start()).toThrow(/started already/);
      await expect.poll(() => orders.outboxStats()).toMatchObject({ due: 0 });
      await orders.send.OrderApproved("inventory", { orderId: "single" });
      await expect.poll(() => handled).toEqual(["single"]);
      await orders.transaction(async (tx) => {
        await made.write(tx, "row");
        await orders.send.OrderApproved("inventory", { orderId: "in a transaction" });
      });
      await expect.poll(() => handled).toEqual(["single", "in a transaction"]);
      await orders.stop();
      expect((await orders.outboxStats()).counts).toMatchObject({ Sent: 2, Sending: 0, Pending: 0 });
      expect(await made.rows()).toEqual(["row"]);
    });

    it("MSG-04 dispatch, maintain and close wait for onDead, but not for ever", async () => {
      const door = gate();
      const reported: string[] = [];
      const slow = await pair({
        orders: {
          retry: { maxRetries: 0 },
          breaker: false,
          async onDead({ state }) {
            await door.promise;
            reported.push(state);
          },
        },
      });
      slow.fates.push("lost");
      await slow.orders.send.OrderApproved("inventory", { orderId: "fails" });
      const dispatching = dispatch(slow.orders);
      await expect
        .poll(() => fieldsOf(slow.log, "error", "Outbox: message permanently failed"))
        .toHaveLength(1);
      const closing = slow.orders.close().then(() => reported.push("closed"));
      door.open();
      await dispatching;
      expect(reported[0]).toBe("Failed");
      await closing;
      expect(reported).toEqual(["Failed", "closed"]);

      await slow.orders.send.OrderApproved("inventory", { orderId: "expires" }, { ttlMs: 1_000 });
      slow.clock.advance(1_000);
      await slow.orders.maintain(timeBudget(60_000));
      expect(reported).toEqual(["Failed", "closed", "Expired"]);

      const stuck = await pair({
        orders: { retry: { maxRetries: 0 }, handlerTimeoutMs: 20, onDead: () => new Promise(() => {}) },
      });
      stuck.fates.push("lost");
      await stuck.orders.send.OrderApproved("inventory", { orderId: "7" });
      await dispatch(stuck.orders);
      await stuck.orders.close();
      expect(fieldsOf(stuck.log, "error", "onDead is still running, and is not waited for")).toMatchObject([
        { calls: 1 },
        { calls: 1 },
      ]);
    });

    it("MSG-21 resend sends the messages since a receiver's back-up again: lost ones are handled, the others are duplicates", async () => {
      const handled: string[] = [];
      const record = (orderId: string) => void handled.push(orderId);
      const made = await pair({
        inventory: { receive: { OrderApproved: ({ orderId }) => record(orderId) } },
        orders: { receive: { OrderApproved: ({ orderId }) => record(`own ${orderId}`) } },
      });
      const { orders, clock, fates, wire } = made;
      const send = async (destination: "orders" | "inventory", orderId: string) => {
        const id = await orders.send.OrderApproved(destination, { orderId });
        await dispatch(orders);
        clock.advance(1_000);
        return id;
      };
      const before = await send("inventory", "before the back-up");
      const since = clock();
      const known = await send("inventory", "known");
      fates.push({ acknowledged: true, duplicateDetected: false }); // the restore lost it
      const lost = await send("inventory", "lost");
      await send("orders", "another destination");
      const waiting = await orders.send.OrderApproved("inventory", { orderId: "waiting" });
      handled.length = 0;
      wire.length = 0;

      expect(await orders.resend({ destination: "inventory", since })).toEqual({ resent: 2 });
      expect(await orders.get(before)).toMatchObject({ state: "Sent" });
      expect(await orders.get(known)).toMatchObject({
        state: "Pending",
        retryCount: 0,
        sentAt: null,
        expiresAt: new Date(clock().getTime() + 24 * 60 * 60_000),
      });
      await dispatch(orders);
      expect(wire.map(({ messageId }) => messageId).sort()).toEqual([known, lost, waiting].sort());
      expect(handled.sort()).toEqual(["lost", "waiting"]);
      expect((await orders.outboxStats()).counts).toMatchObject({ Sent: 5, Pending: 0 });

      expect(await orders.resend([before, uuidV7()])).toEqual({ resent: 1 });
      await dispatch(orders);
      expect(handled).toHaveLength(2);
      const refused = orders.resend as (which: unknown, options?: unknown) => Promise<unknown>;
      await expect(refused({ destination: "nobody", since })).rejects.toThrow(
        /"nobody" is not a destination/,
      );
      await expect(refused({ destination: "inventory" })).rejects.toThrow(/since must be/);
      await expect(refused({ destination: "inventory", since, all: true })).rejects.toThrow(/all/);
      await expect(refused(["7"])).rejects.toThrow(/message ids/);
      await expect(refused(undefined)).rejects.toThrow(/destination, since/);
      await expect(refused([before], { signal: AbortSignal.abort(new Error("stopped")) })).rejects.toThrow(
        "stopped",
      );
    });

    it("MSG-18 only a service with destinations polls its outbox, and less and less often while it is idle, if that is asked for", async () => {
      const made = await pair();
      const claimsOf = (db: WatchedDatabase) => db.calls.filter((name) => name === "claim").length;
      const handled: string[] = [];
      const receive: TestServiceOptions["receive"] = {
        OrderApproved: ({ orderId }) => void handled.push(orderId),
        ReserveStock: () => ({ reservation: "r" }),
        MakeReport: () => ({ report: "r" }),
      };
      const polls = { pollMs: 1, idlePollMs: 3_600_000, notify: false };

      const quiet = watched(made.database.db);
      const receiver = made.another("inventory", quiet, { ...polls, receive, destinations: {} as never });
      receiver.start();
      await receiver.receiver.receive(approved("received"));
      await expect.poll(() => quiet.calls).toContain("purge"); // the clean-up runs anyway
      await receiver.close();
      expect(handled).toEqual(["received"]);
      expect(claimsOf(quiet)).toBe(0);

      const idle = watched(made.database.db);
      const startedAt = performance.now();
      const sender = made.another("orders", idle, polls);
      sender.start();
      await expect.poll(() => claimsOf(idle)).toBeGreaterThan(6);
      // the waits double: 1, 2, 4, … ms
      expect(claimsOf(idle)).toBeLessThanOrEqual(Math.log2(performance.now() - startedAt) + 3);
      const { wire } = made;
      await sender.transaction(() => sender.send.OrderApproved("inventory", { orderId: "woken" }));
      await expect.poll(() => wire).toHaveLength(1);
      await sender.close();
    });

    it("MSG-02 a closed service neither starts nor sends, and its messages stay for the next process", async () => {
      const { orders, wire } = await pair();
      const id = await orders.send.OrderApproved("inventory", { orderId: "7" });
      await orders.close();
      await orders.close(); // a second time does nothing
      expect(() => orders.start()).toThrow(/is closed/);
      await expect(dispatch(orders)).rejects.toThrow(/is closed/);
      await expect(orders.request.ReserveStock("inventory", { item: "x" })).rejects.toThrow(/is closed/);
      expect(wire).toEqual([]);
      expect(await orders.get(id)).toMatchObject({ state: "Pending", retryCount: 0 });
    });

    it("MSG-11 with two databases a handler cannot send, and a command's response comes with the acknowledgement", async (test) => {
      const made = await pair();
      const { database, write } = made;
      skipUnless(test, database, "severalConnections");
      const two = made.another("inventory", database.db, {
        db: { outbox: database.reopen(), inbox: database.db },
        receive: {
          async OrderApproved({ orderId }, { tx }) {
            await write(tx, orderId);
            const options = orderId === "with tx" ? { tx } : {};
            await two.send.OrderApproved("orders", { orderId: "out" }, options);
          },
          ReserveStock: ({ item }) => ({ reservation: item }),
        },
      });
      for (const orderId of ["with tx", "without"]) {
        const response = await two.receiver.receive(approved(orderId));
        expect(response).toMatchObject({
          acknowledged: false,
          error: expect.stringMatching(/cannot send when outbox and inbox are on two databases/),
        });
      }
      expect(await made.rows()).toEqual([]);
      expect(await two.receiver.receive(envelope())).toMatchObject({ payload: { reservation: "chair" } });
      expect((await two.list()).messages).toEqual([]);
    });
  });
}
