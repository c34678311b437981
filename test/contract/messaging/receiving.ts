import { expect, it } from "vitest";
import { timeBudget } from "../../../src/base/async.js";
import { responseReference } from "../../../src/messaging/responses.js";
import { type ContractHarness, skipUnless } from "../harness.js";
import { gate } from "../support/gate.js";
import { approved, describePairs, dispatch, envelope, type TestServiceOptions } from "./support.js";

export function receivingContract(harness: ContractHarness): void {
  describePairs(harness, "receiving", (pair) => {
    /** An inventory that writes a row for each message that it handles. */
    const storing = async (options: TestServiceOptions = {}) => {
      let calls = 0;
      const made = await pair((get) => ({
        inventory: {
          receive: {
            async OrderApproved({ orderId }, { tx }) {
              calls++;
              await get().write(tx, orderId);
            },
            async ReserveStock({ item }, { tx }) {
              calls++;
              await get().write(tx, item);
              return { reservation: `${item} ${calls}` };
            },
          },
          ...options,
        },
      }));
      return { ...made, calls: () => calls };
    };

    it("MSG-05 a duplicate gets the stored response, and the handler does not run again", async () => {
      const { inventory, rows, calls, log } = await storing();
      const message = envelope();
      const first = await inventory.receiver.receive(message);
      expect(first).toEqual({
        acknowledged: true,
        duplicateDetected: false,
        payload: { reservation: "chair 1" },
      });
      for (let again = 0; again < 2; again++)
        expect(await inventory.receiver.receive(message)).toEqual({ ...first, duplicateDetected: true });
      const signal = approved("7");
      expect(await inventory.receiver.receive(signal)).toEqual({
        acknowledged: true,
        duplicateDetected: false,
      });
      expect(await inventory.receiver.receive(signal)).toEqual({
        acknowledged: true,
        duplicateDetected: true,
      });
      expect(calls()).toBe(2);
      expect(await rows()).toEqual(["7", "chair"]);
      expect(log.filter(({ message: text }) => text === "Inbox: duplicate detected")).toHaveLength(3);
      expect(await inventory.inboxStats()).toMatchObject({ size: 2 });
    });

    it("MSG-05 the same message id of another source is another message", async () => {
      const { inventory, calls } = await storing();
      const message = approved("a");
      await inventory.receiver.receive(message);
      const other = { ...message, sourceServiceId: "billing", payload: { orderId: "b" } };
      expect(await inventory.receiver.receive(other)).toMatchObject({ duplicateDetected: false });
      expect(calls()).toBe(2);
    });

    it("MSG-05 a handler that fails leaves nothing behind, and the next delivery is handled", async () => {
      let fails = true;
      const made = await pair((get) => ({
        inventory: {
          receive: {
            async ReserveStock({ item }, { tx }) {
              await get().write(tx, item);
              await get().inventory.send.OrderApproved("orders", { orderId: item }, { tx });
              if (fails) throw new Error("the chair is broken: chair-secret");
              return { reservation: "r" };
            },
            async OrderApproved({ orderId }, { tx }) {
              await get().write(tx, orderId);
              if (fails) throw new Error("no");
            },
          },
        },
      }));
      const { inventory, rows } = made;
      const messages = [envelope(), approved("7")];
      for (const message of messages)
        expect(await inventory.receiver.receive(message)).toMatchObject({ acknowledged: false });
      expect(await rows()).toEqual([]);
      expect(await inventory.inboxStats()).toMatchObject({ size: 0 });
      expect((await inventory.list()).messages).toEqual([]);
      fails = false;
      for (const message of messages)
        expect(await inventory.receiver.receive(message)).toMatchObject({
          acknowledged: true,
          duplicateDetected: false,
        });
      expect(await rows()).toEqual(["7", "chair"]);
    });

    it("MSG-18 the error of a message that is not acknowledged contains neither payload nor secret", async () => {
      const { inventory, log } = await pair({
        inventory: {
          receive: {
            OrderApproved() {
              throw new Error("postgres://user:hunter2@host failed for order-secret-7");
            },
          },
        },
      });
      const responses = [
        await inventory.receiver.receive(approved("order-secret-7")),
        await inventory.receiver.receive(envelope({ endpoint: "OrderApproved" })),
        await inventory.receiver.receive(approved("", { payload: { orderId: { "order-secret-7": true } } })),
        await inventory.receiver.receive(approved("", { endpoint: "InvoicePaid", messageType: "PushCall" })),
      ];
      expect(responses.map(({ acknowledged }) => acknowledged)).toEqual([false, false, false, false]);
      expect(responses.map(({ error }) => error)).toEqual([
        "Error",
        expect.stringContaining("is a Signal, not a Command"),
        expect.stringContaining("orderId: Expected text"),
        expect.stringContaining('no handler for the endpoint "InvoicePaid"'),
      ]);
      expect(JSON.stringify([responses, log])).not.toContain("order-secret-7");
      expect(JSON.stringify(responses)).not.toContain("hunter2");
      expect(await inventory.inboxStats()).toMatchObject({ size: 0 });
    });

    it("MSG-05 concurrent deliveries of one message run the handler once, and all get its response", async () => {
      const { inventory, calls, rows } = await storing();
      for (const message of [envelope(), approved("7")]) {
        const before = calls();
        const responses = await Promise.all(
          Array.from({ length: 8 }, () => inventory.receiver.receive(message)),
        );
        expect(responses.map(({ acknowledged }) => acknowledged)).toEqual(Array(8).fill(true));
        expect(responses.filter(({ duplicateDetected }) => !duplicateDetected)).toHaveLength(1);
        expect(new Set(responses.map(({ payload }) => JSON.stringify(payload))).size).toBe(1);
        expect(calls()).toBe(before + 1);
      }
      expect(await rows()).toEqual(["7", "chair"]);
    });

    it("MSG-05 a delivery that waits for one that fails is handled itself", async () => {
      const entered = gate();
      const door = gate();
      let calls = 0;
      const { inventory } = await pair({
        inventory: {
          receive: {
            async OrderApproved() {
              if (++calls > 1) return;
              entered.open();
              await door.promise;
              throw new Error("first");
            },
          },
        },
      });
      const message = approved("7");
      const first = inventory.receiver.receive(message);
      await entered.promise;
      const second = inventory.receiver.receive(message);
      door.open();
      expect(await first).toMatchObject({ acknowledged: false });
      expect(await second).toMatchObject({ acknowledged: true, duplicateDetected: false });
    });

    it("MSG-05 two instances that get one message at the same time handle it once", async (test) => {
      const made = await storing();
      skipUnless(test, made.database, "concurrentWriters");
      const entered = gate();
      const door = gate();
      let calls = 0;
      const receive: TestServiceOptions["receive"] = {
        async ReserveStock() {
          calls++;
          entered.open();
          await door.promise;
          return { reservation: "once" };
        },
      };
      const one = made.another("inventory", made.database.db, { receive });
      const two = made.another("inventory", made.database.reopen(), { receive });
      const message = envelope();
      const first = one.receiver.receive(message);
      await entered.promise;
      // its sender sends it again later
      expect(await two.receiver.receive(message)).toMatchObject({
        acknowledged: false,
        error: expect.stringContaining("still being handled"),
      });
      door.open();
      expect(await first).toMatchObject({ acknowledged: true, duplicateDetected: false });
      expect(await two.receiver.receive(message)).toEqual({
        acknowledged: true,
        duplicateDetected: true,
        payload: { reservation: "once" },
      });
      expect(calls).toBe(1);
    });

    it("MSG-05 a handler that takes too long is aborted and rolled back", async () => {
      const signals: AbortSignal[] = [];
      const made = await pair((get) => ({
        inventory: {
          handlerTimeoutMs: 500,
          receive: {
            async OrderApproved({ orderId }, { tx, signal }) {
              signals.push(signal);
              await get().write(tx, orderId);
              await new Promise<void>((resolve) => {
                signal.addEventListener("abort", () => resolve());
              });
            },
          },
        },
      }));
      expect(await made.inventory.receiver.receive(approved("7"))).toMatchObject({
        acknowledged: false,
        error: "The handler did not finish within 500 ms.",
      });
      // on a slow server the time may be up before the handler is called
      expect(signals.every((signal) => signal.aborted)).toBe(true);
      expect(await made.rows()).toEqual([]);
      expect(await made.inventory.inboxStats()).toMatchObject({ size: 0 });
    });

    it("MSG-01 MSG-05 the messages that a handler sends commit with it, with tx and without", async () => {
      const made = await pair((get) => ({
        inventory: {
          receive: {
            async OrderApproved({ orderId }, { tx }) {
              await get().inventory.send.OrderApproved("orders", { orderId: `${orderId} a` }, { tx });
              await get().inventory.send.OrderApproved("orders", { orderId: `${orderId} b` });
              if (orderId === "bad") throw new Error("no");
            },
          },
        },
      }));
      await made.inventory.receiver.receive(approved("bad"));
      expect((await made.inventory.list()).messages).toEqual([]);
      await made.inventory.receiver.receive(approved("good"));
      await dispatch(made.inventory);
      expect(made.wire.map(({ payload }) => payload)).toEqual([{ orderId: "good a" }, { orderId: "good b" }]);
    });

    it("MSG-22 a response above the limit is refused and rolled back; a reference can be sent instead", async () => {
      let isReference = false;
      const made = await pair((get) => ({
        inventory: {
          maxResponseBytes: 1_000,
          receive: {
            async MakeReport({ year }, { tx }) {
              await get().write(tx, year);
              const url = `https://files.example/${year}.json`;
              return isReference ? responseReference(url, { bytes: 2_000 }) : { report: "x".repeat(2_000) };
            },
          },
        },
      }));
      const message = envelope({ endpoint: "MakeReport", payload: { year: "2030" } });
      const refused = await made.inventory.receiver.receive(message);
      expect(refused).toMatchObject({
        acknowledged: false,
        error: expect.stringMatching(/2013 bytes; at most 1000.*responseReference/),
      });
      expect(await made.rows()).toEqual([]);
      isReference = true;
      const reference = { url: "https://files.example/2030.json", bytes: 2_000 };
      expect(await made.inventory.receiver.receive(message)).toMatchObject({ acknowledged: true });
      expect(await made.orders.request.MakeReport("inventory", { year: "2031" })).toMatchObject({
        ...reference,
        url: "https://files.example/2031.json",
      });
    });

    it("MSG-12 a handler whose response does not fit its schema is refused and rolled back", async () => {
      const made = await pair((get) => ({
        inventory: {
          receive: {
            async ReserveStock({ item }, { tx }) {
              await get().write(tx, item);
              return { other: "x" } as unknown as { reservation: string };
            },
          },
        },
      }));
      expect(await made.inventory.receiver.receive(envelope())).toMatchObject({
        acknowledged: false,
        error: expect.stringContaining("reservation: Expected text"),
      });
      expect(await made.rows()).toEqual([]);
    });

    it("MSG-10 Sent messages are kept for 7 days, handled ones for 24 h plus the tolerance of a signature, and Failed ones for ever", async () => {
      const { orders, inventory, clock, fates } = await storing();
      const day = 24 * 60 * 60_000;
      const toleranceMs = 5 * 60_000;
      await orders.send.OrderApproved("inventory", { orderId: "7" });
      await dispatch(orders);
      fates.push("lost");
      const failed = await orders.send.OrderApproved("inventory", { orderId: "8" }, { maxRetries: 0 });
      await dispatch(orders);
      clock.advance(day + toleranceMs - 1);
      await inventory.maintain(timeBudget(60_000));
      expect(await inventory.inboxStats()).toMatchObject({ size: 1 });
      clock.advance(2);
      expect(await inventory.maintain(timeBudget(60_000))).toMatchObject({ inbox: { done: 1, more: false } });
      expect(await inventory.inboxStats()).toMatchObject({ size: 0 });
      clock.advance(6 * day - toleranceMs - 2);
      await orders.maintain(timeBudget(60_000));
      expect((await orders.outboxStats()).counts.Sent).toBe(1);
      clock.advance(2);
      expect(await orders.maintain(timeBudget(60_000))).toMatchObject({ sent: { done: 1 } });
      expect((await orders.list()).messages.map(({ messageId }) => messageId)).toEqual([failed]);
    });
  });
}
