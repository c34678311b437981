import { expect, it } from "vitest";
import { timeBudget } from "../../../src/base/async.js";
import { permanentFailure } from "../../../src/dispatch/settlement.js";
import { reasons } from "../../../src/sql/dead-letters.js";
import type { ContractHarness } from "../harness.js";
import { describePairs, dispatch, type Pair } from "./support.js";

const quiet = { receive: { OrderApproved: () => {} } };

const budget = () => timeBudget(60_000);

/** What is in the outbox of `orders`. */
const sent = async ({ orders }: Pair) => (await orders.list()).messages;

export function sendingContract(harness: ContractHarness): void {
  describePairs(harness, "sending", (pair) => {
    it("MSG-01 a message is stored in the caller's transaction, and nothing is sent inside it", async () => {
      const made = await pair({ inventory: quiet });
      const { database, orders, wire } = made;
      const undone = await database.begin();
      await orders.send.OrderApproved("inventory", { orderId: "undone" }, { tx: undone.tx });
      await undone.rollback();
      expect(await sent(made)).toEqual([]);

      const caller = await database.begin();
      const id = await orders.send.OrderApproved("inventory", { orderId: "7" }, { tx: caller.tx });
      expect(wire).toEqual([]);
      await caller.commit();
      expect(await sent(made)).toMatchObject([{ messageId: id, state: "Pending" }]);
      expect(wire).toEqual([]);
      await dispatch(orders);
      expect(wire).toMatchObject([{ messageId: id, payload: { orderId: "7" } }]);
    });

    it("MSG-06 MSG-07 the envelope has id, correlation id, source, type, endpoint, payload and headers", async () => {
      const { orders, wire } = await pair({ inventory: quiet });
      const messageId = await orders.send.OrderApproved(
        "inventory",
        { orderId: "7" },
        { correlationId: "c-1", maxRetries: 3, headers: { traceparent: "00-1" } },
      );
      await dispatch(orders);
      expect(wire).toEqual([
        {
          messageId,
          correlationId: "c-1",
          sourceServiceId: "orders",
          messageType: "Signal",
          endpoint: "OrderApproved",
          payload: { orderId: "7" },
          headers: { traceparent: "00-1" },
        },
      ]);
    });

    it("MSG-02 an acknowledged or duplicate message is Sent, and every other one is retried", async () => {
      const made = await pair();
      const { orders, fates, clock } = made;
      fates.push(
        { acknowledged: true, duplicateDetected: false },
        { acknowledged: false, duplicateDetected: true },
        { acknowledged: false, duplicateDetected: false, error: "no room" },
        "lost",
      );
      for (const orderId of ["1", "2", "3", "4"]) {
        await orders.send.OrderApproved("inventory", { orderId });
        await dispatch(orders);
      }
      const at = clock();
      const retried = { retryCount: 1, nextRetryAt: new Date(at.getTime() + 2_000), lastAttemptAt: at };
      expect(await sent(made)).toMatchObject([
        { state: "Sent", sentAt: at, lastError: null },
        { state: "Sent", sentAt: at, lastError: null },
        { state: "Pending", ...retried, lastError: "no room" },
        { state: "Pending", ...retried, lastError: "Error" },
      ]);
      expect((await orders.outboxStats()).counts).toMatchObject({ Pending: 2, Sent: 2 });
    });

    it("MSG-03 MSG-18 a handler's permanentFailure makes the message Failed at once, and is reported", async () => {
      let thrown = 0;
      let isGone = true;
      const refuse = () => {
        thrown++;
        if (isGone) throw permanentFailure("the order was deleted");
      };
      const made = await pair({
        orders: { retry: { baseMs: 2, maxMs: 2, jitterMs: 0 } },
        inventory: {
          receive: {
            OrderApproved: refuse,
            ReserveStock: () => {
              refuse();
              return { reservation: "r" };
            },
          },
        },
      });
      const { orders, inventory, wire, dead } = made;
      const id = await orders.send.OrderApproved("inventory", { orderId: "7" });
      await dispatch(orders);
      const failed = {
        state: "Failed",
        retryCount: 1,
        lastError: expect.stringMatching(/the order was deleted$/),
      };
      expect(await orders.get(id)).toMatchObject(failed);
      await expect.poll(() => dead).toMatchObject([{ messageId: id, ...failed }]);
      await expect(orders.request.ReserveStock("inventory", { item: "chair" })).rejects.toMatchObject({
        code: "ONCEBOX_REQUEST_FAILED",
        message: expect.stringContaining("the order was deleted"),
      });
      expect(wire).toHaveLength(2);
      expect(thrown).toBe(2);
      expect(await inventory.inboxStats()).toMatchObject({ size: 0 }); // so a retry by hand is handled
      isGone = false;
      expect(await orders.retry(id)).toBe(true);
      await dispatch(orders);
      expect(await orders.get(id)).toMatchObject({ state: "Sent" });
      expect(thrown).toBe(3);
    });

    it("MSG-03 MSG-18 a message is retried after 2, 4, 8, 16 and 32 s, then Failed, reported, and kept for a retry by hand", async () => {
      const made = await pair({ orders: { breaker: false }, inventory: quiet });
      const { orders, fates, clock, dead, wire } = made;
      const id = await orders.send.OrderApproved("inventory", { orderId: "7" });
      fates.push("lost", "lost", "lost", "lost", "lost", "lost");
      const waits: number[] = [];
      for (let attempt = 1; attempt <= 6; attempt++) {
        await dispatch(orders);
        const next = (await orders.get(id))?.nextRetryAt;
        if (!next) break;
        const waitMs = next.getTime() - clock().getTime();
        waits.push(waitMs);
        clock.advance(waitMs - 1);
        await dispatch(orders); // not yet
        clock.advance(1);
      }
      expect(waits).toEqual([2_000, 4_000, 8_000, 16_000, 32_000]);
      expect(wire).toHaveLength(6);
      expect(await orders.get(id)).toMatchObject({ state: "Failed", retryCount: 5, maxRetries: 5 });
      await expect
        .poll(() => dead)
        .toMatchObject([{ messageId: id, state: "Failed", payload: { orderId: "7" } }]);

      expect(await orders.retry(id)).toBe(true);
      await dispatch(orders);
      expect(await orders.get(id)).toMatchObject({ state: "Sent" });
      expect(await orders.retry(id)).toBe(false);
    });

    it("MSG-03 MSG-17 a message may have fewer or more retries than the service", async () => {
      const made = await pair({ orders: { breaker: false, retry: { maxRetries: 1, jitterMs: 0 } } });
      const { orders, fates, clock } = made;
      const send = (maxRetries?: number) =>
        orders.send.OrderApproved("inventory", { orderId: "7" }, { maxRetries });
      const ids = [await send(0), await send(), await send(3)];
      fates.push(...Array.from({ length: 20 }, () => "lost" as const));
      const retries: (readonly number[])[] = [];
      for (let round = 0; round < 4; round++) {
        await dispatch(orders);
        clock.advance(60_000);
        const messages = await Promise.all(ids.map((id) => orders.get(id)));
        retries.push(messages.map((message) => (message?.state === "Failed" ? -1 : message!.retryCount)));
      }
      expect(retries).toEqual([
        [-1, 1, 1],
        [-1, -1, 2],
        [-1, -1, 3],
        [-1, -1, -1],
      ]);
      expect((await sent(made)).map(({ maxRetries }) => maxRetries)).toEqual([0, 1, 3]);
    });

    it("MSG-03 MSG-04 MSG-17 a message whose retries have no limit is sent until it expires, and JSON says null", async () => {
      const retry = { maxRetries: Number.POSITIVE_INFINITY, jitterMs: 0 };
      const { orders, fates, clock } = await pair({ orders: { breaker: false, retry } });
      const id = await orders.send.OrderApproved("inventory", { orderId: "7" });
      for (let round = 1; round <= 12; round++) {
        fates.push("lost");
        await dispatch(orders);
        expect(await orders.get(id)).toMatchObject({
          state: "Pending",
          retryCount: round,
          maxRetries: Number.POSITIVE_INFINITY,
        });
        clock.advance(5 * 60_000);
      }
      expect(JSON.parse(JSON.stringify(await orders.get(id)))).toMatchObject({ maxRetries: null });
      clock.advance(24 * 60 * 60_000);
      await dispatch(orders);
      expect(await orders.get(id)).toMatchObject({
        state: "Expired",
        retryCount: 12,
        maxRetries: Number.POSITIVE_INFINITY,
      });
    });

    it("MSG-04 a message past its TTL is Expired, never sent, reported, and kept for a retry by hand", async () => {
      const { orders, clock, wire, dead } = await pair({ inventory: quiet });
      const usual = await orders.send.OrderApproved("inventory", { orderId: "24 h" });
      const short = await orders.send.OrderApproved("inventory", { orderId: "1 s" }, { ttlMs: 1_000 });
      const reaped = await orders.send.OrderApproved("inventory", { orderId: "2 s" }, { ttlMs: 2_000 });
      clock.advance(1_000);
      expect(await orders.list({ state: "Expired" })).toMatchObject({ messages: [] });
      clock.advance(1_000);
      await dispatch(orders);
      await orders.maintain({ signal: new AbortController().signal, remainingMs: () => 60_000 });
      expect(wire.map(({ messageId }) => messageId)).toEqual([usual]);
      await expect
        .poll(() => new Set(dead.map(({ messageId }) => messageId)))
        .toEqual(new Set([short, reaped]));
      expect(dead.map(({ state }) => state)).toEqual(["Expired", "Expired"]);
      expect((await orders.list({ state: "Expired" })).messages).toHaveLength(2);
      expect((await orders.outboxStats()).counts).toEqual({
        Pending: 0,
        Sending: 0,
        Sent: 1,
        Failed: 0,
        Expired: 2,
      });
      expect(await orders.retry(short)).toBe(true);
      await dispatch(orders);
      expect(await orders.get(short)).toMatchObject({ state: "Sent" });
    });

    it("MSG-17 a message is Sending while it is sent, and a Failed one past its TTL is Expired", async () => {
      const made = await pair({ orders: { retry: { maxRetries: 0 } } });
      const { orders, fates, clock } = made;
      const id = await orders.send.OrderApproved("inventory", { orderId: "7" });
      const during: unknown[] = [];
      const watching = await pair({
        orders: {
          transports: {
            own: [
              {
                schemes: ["inprocess:"],
                async send() {
                  during.push((await watching.orders.outboxStats()).counts.Sending);
                  return { acknowledged: true, duplicateDetected: false };
                },
                async close() {},
              },
            ],
          },
        },
      });
      await watching.orders.send.OrderApproved("inventory", { orderId: "8" });
      await dispatch(watching.orders);
      expect(during).toEqual([1]);

      fates.push("lost");
      await dispatch(orders);
      expect(await orders.get(id)).toMatchObject({ state: "Failed" });
      expect((await orders.outboxStats()).counts).toMatchObject({ Failed: 1, Expired: 0 });
      clock.advance(24 * 60 * 60_000);
      expect(await orders.get(id)).toMatchObject({ state: "Expired" });
      expect((await orders.list({ state: "Failed" })).messages).toEqual([]);
      expect((await orders.outboxStats()).counts).toMatchObject({ Failed: 0, Expired: 1 });
    });

    it("MSG-04 MSG-17 a Failed message is reported once as Failed and once, past its TTL, as Expired; a retry gives it a new TTL", async () => {
      const made = await pair({ orders: { retry: { maxRetries: 0 }, breaker: false }, inventory: quiet });
      const { orders, fates, clock, dead, metrics } = made;
      const id = await orders.send.OrderApproved("inventory", { orderId: "7" }, { ttlMs: 60_000 });
      fates.push("lost");
      clock.advance(1_000);
      await dispatch(orders);
      const failedAt = clock();
      await expect.poll(() => dead).toHaveLength(1);
      clock.advance(59_000);
      const first = await orders.maintain(budget());
      expect(first.failed).toEqual({ done: 1, dead: 0, more: false });
      expect((await orders.maintain(budget())).failed).toMatchObject({ done: 0 });
      const lastError = `${reasons.expired} Before that: PermanentFailure: Error`;
      const reported = { messageId: id, payload: { orderId: "7" }, lastAttemptAt: failedAt };
      expect(dead).toMatchObject([
        { ...reported, state: "Failed", lastError: "Error" },
        { ...reported, state: "Expired", lastError },
      ]);
      expect(metrics.filter(({ name }) => name === "rf_outbox_expired_count")).toHaveLength(1);
      expect((await orders.list({ state: "Expired" })).messages).toMatchObject([
        { messageId: id, lastError },
      ]);

      expect(await orders.retry(id)).toBe(true);
      const retried = { state: "Pending", retryCount: 0, nextRetryAt: null };
      expect(await orders.get(id)).toMatchObject({
        ...retried,
        expiresAt: new Date(clock().getTime() + 24 * 60 * 60_000),
      });
      fates.push("lost");
      await dispatch(orders);
      expect(await orders.get(id)).toMatchObject({ state: "Failed", lastError: "Error" });
      clock.advance(24 * 60 * 60_000);
      await orders.maintain(budget());
      expect(dead.map(({ state }) => state)).toEqual(["Failed", "Expired", "Failed", "Expired"]);
    });

    it("MSG-17 list shows type, retries, their maximum and every time", async () => {
      const made = await pair({
        orders: { retry: { maxRetries: 2, jitterMs: 0 }, breaker: false },
        inventory: quiet,
      });
      const { orders, fates, clock } = made;
      const createdAt = clock();
      const expiresAt = new Date(createdAt.getTime() + 60_000);
      const signal = await orders.send.OrderApproved("inventory", { orderId: "7" }, { ttlMs: 60_000 });
      const command = { item: "chair" };
      const other = await orders.send.ReserveStock("inventory", command, { maxRetries: 7, ttlMs: 60_000 });
      fates.push({ acknowledged: true, duplicateDetected: false }, "lost");
      clock.advance(1_000);
      await dispatch(orders);
      const at = clock();
      const messages = [...(await sent(made))].sort((a, b) => a.maxRetries - b.maxRetries);
      const common = {
        correlationId: null,
        destination: "inventory",
        lastAttemptAt: at,
        createdAt,
        expiresAt,
      };
      expect(messages).toEqual([
        {
          ...common,
          messageId: signal,
          messageType: "Signal",
          endpoint: "OrderApproved",
          state: "Sent",
          retryCount: 0,
          maxRetries: 2,
          nextRetryAt: null,
          lastError: null,
          sentAt: at,
        },
        {
          ...common,
          messageId: other,
          messageType: "Command",
          endpoint: "ReserveStock",
          state: "Pending",
          retryCount: 1,
          maxRetries: 7,
          nextRetryAt: new Date(at.getTime() + 2_000),
          lastError: "Error",
          sentAt: null,
        },
      ]);
    });

    it("MSG-12 MSG-22 a message that cannot be sent is refused at once without being quoted, and nothing is stored", async () => {
      const made = await pair();
      const { send } = made.orders;
      const refused = async (payload: unknown, text: RegExp, options = {}) => {
        const error = await send
          .OrderApproved("inventory", payload as { orderId: string }, options)
          .catch((thrown: unknown) => thrown);
        expect(String(error)).toMatch(text);
        expect(String(error)).not.toContain("secret-value");
      };
      const circular: Record<string, unknown> = { orderId: "secret-value" };
      circular.self = circular;
      await refused(circular, /self.*circular/);
      await refused({ orderId: 7n }, /orderId.*bigint/i);
      await refused({ other: "secret-value" }, /orderId: Expected text/);
      await refused(undefined, /undefined/);
      await refused({ orderId: "x".repeat(1_100_000) }, /1100\d+ bytes.*; at most 1048576/);
      // with the ids, the headers and the signature, its receiver would find it too large
      await refused({ orderId: "x".repeat(1_048_576 - 100) }, /1048\d+ bytes with its headers/);
      await refused({ orderId: "7" }, /rf-hmac/, { headers: { "rf-hmac": "forged" } });
      for (const value of ["secret-value\n", "\0", "\ud800", "x".repeat(8_193)])
        await refused({ orderId: "7" }, /headers: x-odd\. /, { headers: { "x-odd": value } });
      await refused({ orderId: "7" }, /headers: X-Odd, a b\. /, { headers: { "X-Odd": "1", "a b": "2" } });
      const many = (count: number) =>
        Object.fromEntries(Array.from({ length: count }, (_, n) => [`x-${n}`, "1"]));
      await refused({ orderId: "7" }, /65 headers; at most 64/, { headers: many(65) });
      await refused({ orderId: "7" }, /correlationId/, { correlationId: "ends with a space " });
      const request = (options: object) =>
        made.orders.request.ReserveStock("inventory", { item: "x" }, options);
      await expect(request({ headers: many(64) })).rejects.toThrow(/headers; at most 63/);
      await expect(request({ correlationId: "ends with a space " })).rejects.toThrow(/correlationId/);
      await expect(request({ maxRetries: 10_000 })).rejects.toThrow(/maxRetries must be .* from 0 to 9999/);
      expect(made.wire).toEqual([]);
      await refused({ orderId: "7" }, /ttlMs must be at most inboxRetentionMs/, { ttlMs: 25 * 3_600_000 });
      await expect(send.OrderApproved("nobody" as "orders", { orderId: "7" })).rejects.toThrow(
        /"nobody" is not a destination.*orders, inventory/,
      );
      expect(await sent(made)).toEqual([]);
    });

    it("MSG-01 a tx that is no transaction is refused before anything runs, with an error that says what to pass", async () => {
      const made = await pair();
      const { send, pushCall } = made.orders;
      let calls = 0;
      const pay = pushCall.InvoicePaid("inventory", () => {
        calls++;
        return { receipt: "r" };
      });
      for (const wrong of [null, {}, 7, "tx", { query: "select" }, { query() {}, connect() {} }]) {
        const tx = wrong as never;
        for (const sending of [
          send.OrderApproved("inventory", { orderId: "7" }, { tx }),
          pay({ invoice: "7" }, { tx }),
        ])
          await expect(sending).rejects.toMatchObject({
            code: "ONCEBOX_INVALID_ARGUMENT",
            message: expect.stringMatching(/^tx (must be a transaction|is a library's own object).*fromPg/),
          });
      }
      expect(calls).toBe(0);
      expect(await sent(made)).toEqual([]);
    });

    it("MSG-07 a push call and its message commit together or not at all", async () => {
      const calls: unknown[] = [];
      const made = await pair({ inventory: { receive: { InvoicePaid: (call) => void calls.push(call) } } });
      const { orders, wire } = made;
      const pay = orders.pushCall.InvoicePaid("inventory", async ({ invoice }, { tx }) => {
        await made.write(tx, invoice);
        if (invoice === "bad") throw new Error("declined");
        return { receipt: `receipt of ${invoice}` };
      });
      await expect(pay({ invoice: "bad" })).rejects.toThrow("declined");
      expect(await made.rows()).toEqual([]);
      expect(await sent(made)).toEqual([]);

      expect(await pay({ invoice: "i-1" }, { correlationId: "c" })).toEqual({ receipt: "receipt of i-1" });
      expect(await made.rows()).toEqual(["i-1"]);
      await dispatch(orders);
      expect(calls).toEqual([{ input: { invoice: "i-1" }, output: { receipt: "receipt of i-1" } }]);
      expect(wire).toMatchObject([{ messageType: "PushCall", correlationId: "c" }]);
    });

    it("MSG-02 after five failures in a row nothing is sent to a destination, and its other messages use no retry", async () => {
      const made = await pair({ orders: { batchSize: 1, concurrency: 1 } });
      const { orders, fates, wire } = made;
      for (let n = 0; n < 8; n++) await orders.send.OrderApproved("inventory", { orderId: `${n}` });
      fates.push(...Array.from({ length: 8 }, () => "lost" as const));
      await dispatch(orders);
      expect(wire).toHaveLength(5);
      expect((await sent(made)).map(({ retryCount }) => retryCount)).toEqual([1, 1, 1, 1, 1, 0, 0, 0]);
    });

    it("MSG-02 while a circuit breaker is open its messages wait and others are sent at once; they follow when the destination is back", async () => {
      const waitingCount = 300;
      const periods = 120;
      let isAway = true;
      const made = await pair({
        orders: {
          transports: {
            own: [
              {
                schemes: ["inprocess:"],
                async send(_, { serviceId }) {
                  if (isAway && serviceId === "inventory") throw new Error("connect ECONNREFUSED");
                  return { acknowledged: true, duplicateDetected: false };
                },
                async close() {},
              },
            ],
          },
        },
      });
      const { orders, clock } = made;
      const send = (destination: "orders" | "inventory") =>
        orders.send.OrderApproved(destination, { orderId: "7" }, { maxRetries: 1_000 });
      for (let n = 0; n < waitingCount; n++) await send("inventory");
      expect((await dispatch(orders)).claimed).toBe(waitingCount);
      let claimed = 0;
      for (let second = 0; second < periods; second++) {
        clock.advance(1_000);
        const other = await send("orders");
        const result = await dispatch(orders);
        claimed += result.claimed - 1;
        expect(await orders.get(other)).toMatchObject({ state: "Sent" });
      }
      // one each second, and a few for each trial; all of them once would be more
      expect(claimed).toBeGreaterThan(0);
      expect(claimed).toBeLessThan(waitingCount);
      const retries = (await orders.list({ state: "Pending", limit: 1_000 })).messages;
      expect(retries).toHaveLength(waitingCount);
      expect(retries.filter(({ retryCount }) => retryCount === 0).length).toBeGreaterThan(waitingCount - 30);

      isAway = false;
      const before = clock();
      for (let second = 0; second < 300; second++) {
        clock.advance(1_000);
        if ((await dispatch(orders)).acked > 0) break;
      }
      expect(clock().getTime() - before.getTime()).toBeLessThan(200_000); // the next trial
      // A message that has failed a trial waits for its own back-off, and one that was refused during the last trial for the next.
      expect((await orders.outboxStats()).counts.Pending).toBeLessThan(10);
      clock.advance(5 * 60_000);
      await dispatch(orders);
      expect((await orders.outboxStats()).counts).toMatchObject({ Pending: 0, Sent: waitingCount + periods });
    });

    it("MSG-01 messages with one partition key are sent in order, and wait for a retry of the first", async () => {
      const { orders, fates, wire, clock } = await pair({ inventory: quiet });
      for (const orderId of ["1", "2", "3"])
        await orders.send.OrderApproved("inventory", { orderId }, { partitionKey: "p" });
      fates.push("lost");
      await dispatch(orders);
      clock.advance(2_000);
      await dispatch(orders);
      const ids = wire.map(({ payload }) => (payload as { orderId: string }).orderId);
      expect(ids).toEqual(["1", "1", "2", "3"]);
    });
  });
}
