import { expect, it } from "vitest";
import { timeBudget } from "../../../src/base/async.js";
import { uuidV7 } from "../../../src/base/uuid.js";
import type { Envelope } from "../../../src/messaging/envelope.js";
import type { ContractHarness } from "../harness.js";
import { describePairs, dispatch, envelope, type Pair, type TestServiceOptions } from "./support.js";

const day = 24 * 60 * 60_000;

export function responsesContract(harness: ContractHarness): void {
  describePairs(harness, "responses", (pair) => {
    /** Orders write a row for each response, inventory one for each command. */
    const conversing = async (orders: TestServiceOptions = {}, inventory: TestServiceOptions = {}) => {
      let reserved = 0;
      const responses: unknown[] = [];
      const made = await pair((get) => ({
        orders: {
          onResponse: {
            async ReserveStock({ reservation }, { tx, sourceServiceId, correlationId, inReplyTo }) {
              await get().write(tx, `response ${reservation}`);
              responses.push({ reservation, sourceServiceId, correlationId, inReplyTo });
            },
          },
          ...orders,
        },
        inventory: {
          receive: {
            async ReserveStock({ item }, { tx }) {
              reserved++;
              await get().write(tx, `command ${item}`);
              return { reservation: `r-${item}` };
            },
          },
          ...inventory,
        },
      }));
      return { ...made, responses, reserved: () => reserved };
    };

    it("MSG-07 a response comes with the acknowledgement and in a message, and is handled once", async () => {
      const { orders, inventory, responses, wire, rows } = await conversing();
      const id = await orders.send.ReserveStock("inventory", { item: "chair" }, { correlationId: "c-1" });
      await dispatch(orders);
      const expected = {
        reservation: "r-chair",
        sourceServiceId: "inventory",
        correlationId: "c-1",
        inReplyTo: id,
      };
      expect(responses).toEqual([expected]);
      await dispatch(inventory);
      expect(wire).toMatchObject([
        { messageType: "Command", messageId: id },
        {
          messageType: "Response",
          endpoint: "ReserveStock",
          correlationId: "c-1",
          headers: { "rf-in-reply-to": id },
        },
      ]);
      expect(responses).toEqual([expected]);
      expect((await inventory.outboxStats()).counts.Sent).toBe(1);
      expect(await rows()).toEqual(["command chair", "response r-chair"]);
    });

    it("MSG-07 when the acknowledgement is lost the response comes by message, and the command's retry is a duplicate", async () => {
      const { orders, inventory, responses, fates, clock, reserved } = await conversing();
      fates.push("unanswered");
      const id = await orders.send.ReserveStock("inventory", { item: "chair" });
      await dispatch(orders);
      expect(responses).toEqual([]);
      await dispatch(inventory);
      expect(responses).toMatchObject([{ reservation: "r-chair", correlationId: id }]);
      clock.advance(2_000);
      await dispatch(orders);
      expect(await orders.get(id)).toMatchObject({ state: "Sent" });
      expect(responses).toHaveLength(1);
      expect(reserved()).toBe(1);
    });

    it("MSG-07 a response handler that fails is rolled back, and the response comes again", async () => {
      let fails = true;
      let made: Pair | undefined;
      const responses: string[] = [];
      made = await conversing({
        onResponse: {
          async ReserveStock({ reservation }, { tx }) {
            await made!.write(tx, "response");
            if (fails) throw new Error("not now");
            responses.push(reservation);
          },
        },
      });
      const { orders, clock } = made;
      const id = await orders.send.ReserveStock("inventory", { item: "chair" });
      await dispatch(orders);
      expect(await orders.get(id)).toMatchObject({ state: "Pending", retryCount: 1 });
      expect(await made.rows()).toEqual(["command chair"]);
      fails = false;
      clock.advance(2_000);
      await dispatch(orders);
      expect(await orders.get(id)).toMatchObject({ state: "Sent" });
      expect(responses).toEqual(["r-chair"]);
      expect(await made.rows()).toEqual(["command chair", "response"]);
    });

    it("MSG-05 MSG-07 each command and each response is handled once when the transport loses and doubles messages", async () => {
      const lossy = { breaker: false, retry: { maxRetries: 50, jitterMs: 0 } } as const;
      const made = await conversing(
        { ...lossy, inboxRetentionMs: 30 * day },
        { ...lossy, inboxRetentionMs: 30 * day },
      );
      const { orders, inventory, fates, clock, responses, reserved, rows } = made;
      const count = 40;
      const kinds = ["lost", "unanswered", "twice", "arrives"] as const;
      // the same mixture in every run
      for (let n = 0; n < 2_000; n++) fates.push(kinds[(n * n + n * 7 + (n >> 3)) % kinds.length]!);
      for (let n = 0; n < count; n++) await orders.send.ReserveStock("inventory", { item: `${n}` });
      const isSent = async (service: typeof orders, all: number) =>
        (await service.outboxStats()).counts.Sent === all;
      for (let round = 0; round < 60; round++) {
        await dispatch(orders);
        await dispatch(inventory);
        if ((await isSent(orders, count)) && (await isSent(inventory, count))) break;
        clock.advance(5 * 60_000);
      }
      expect(await isSent(orders, count)).toBe(true);
      expect(await isSent(inventory, count)).toBe(true);
      expect(reserved()).toBe(count);
      expect(responses).toHaveLength(count);
      expect(await rows()).toHaveLength(2 * count);
    });

    it("MSG-07 a service without onResponse acknowledges responses and ignores them", async () => {
      const { orders, inventory, responses } = await conversing({ onResponse: {} });
      await orders.send.ReserveStock("inventory", { item: "chair" });
      await dispatch(orders);
      await dispatch(inventory);
      expect(responses).toEqual([]);
      expect((await inventory.outboxStats()).counts).toMatchObject({ Sent: 1, Pending: 0 });
    });

    it("MSG-07 MSG-08 a response is accepted only from the service that the command was sent to", async () => {
      const { orders, inventory, responses, fates, rows } = await conversing();
      const id = await orders.send.ReserveStock("inventory", { item: "chair" }, { correlationId: "c-1" });
      const other = await orders.send.OrderApproved("inventory", { orderId: "7" });
      const forged = (content: Partial<Envelope>, inReplyTo: string | undefined = id) =>
        orders.receiver.receive(
          envelope({
            sourceServiceId: "billing",
            messageType: "Response",
            correlationId: "c-1",
            payload: { reservation: "forged" },
            headers: inReplyTo === undefined ? {} : { "rf-in-reply-to": inReplyTo },
            ...content,
          }),
        );
      const refused = [
        await forged({}), // another service that may send to orders
        await forged({ sourceServiceId: "orders" }),
        await forged({ sourceServiceId: "inventory" }, uuidV7()), // no such command was sent
        await forged({ sourceServiceId: "inventory" }, other), // it was no command
        await forged({ sourceServiceId: "inventory", endpoint: "MakeReport", payload: { report: "x" } }),
        await forged({ sourceServiceId: "inventory" }, "not an id"),
        await forged({ sourceServiceId: "inventory", headers: {} }),
      ];
      for (const response of refused)
        expect(response).toMatchObject({ acknowledged: false, permanent: true, error: expect.any(String) });
      expect(responses).toEqual([]);
      expect(await orders.inboxStats()).toMatchObject({ size: 0 });
      fates.push("unanswered", "arrives"); // the true one comes by message
      await dispatch(orders);
      await dispatch(inventory);
      expect(responses).toMatchObject([
        { reservation: "r-chair", sourceServiceId: "inventory", inReplyTo: id },
      ]);
      expect(await rows()).toEqual(["command chair", "response r-chair"]);
    });

    it("MSG-07 a response has the correlation id of its command, and an id in capitals is the same response", async () => {
      const { orders, responses } = await conversing();
      const id = await orders.send.ReserveStock("inventory", { item: "chair" }, { correlationId: "c-1" });
      for (const inReplyTo of [id, id.toUpperCase()])
        await orders.receiver.receive(
          envelope({
            sourceServiceId: "inventory",
            messageType: "Response",
            correlationId: "another",
            payload: { reservation: "r" },
            headers: { "rf-in-reply-to": inReplyTo },
          }),
        );
      expect(responses).toEqual([
        { reservation: "r", sourceServiceId: "inventory", correlationId: "c-1", inReplyTo: id },
      ]);
    });

    it("MSG-07 MSG-10 a late response to a command whose record was deleted is a duplicate, and later refused", async () => {
      const { orders, inventory, responses, clock, dead } = await conversing(
        { sentRetentionMs: 60_000 },
        { ttlMs: 3 * day, inboxRetentionMs: 3 * day },
      );
      const respond = async (item: string, waitMs: number) => {
        await orders.send.ReserveStock("inventory", { item });
        await dispatch(orders);
        clock.advance(waitMs);
        await orders.maintain(timeBudget(60_000));
        expect((await orders.list()).messages).toEqual([]);
        await dispatch(inventory);
      };
      await respond("chair", 60_001);
      expect(await inventory.outboxStats()).toMatchObject({ counts: { Sent: 1, Failed: 0 } });
      await respond("table", day + 5 * 60_000 + 1);
      await expect.poll(() => dead).toMatchObject([{ state: "Failed", messageType: "Response" }]);
      expect(await inventory.outboxStats()).toMatchObject({ counts: { Sent: 1, Failed: 1 } });
      expect(responses).toHaveLength(2); // with their acknowledgements
    });

    it("MSG-07 request returns the response, is retried under one message id, and stores nothing at the sender", async () => {
      const { orders, inventory, wire, fates, reserved, responses } = await conversing({
        retry: { baseMs: 2, maxMs: 2, jitterMs: 0 },
      });
      fates.push("lost", "unanswered");
      const response = await orders.request.ReserveStock("inventory", { item: "chair" });
      expect(response).toEqual({ reservation: "r-chair" });
      expect(wire).toHaveLength(3);
      expect(new Set(wire.map(({ messageId }) => messageId)).size).toBe(1);
      expect(reserved()).toBe(1);
      expect((await orders.list()).messages).toEqual([]);
      expect((await inventory.list()).messages).toEqual([]); // no message brings the response a second time
      expect(responses).toEqual([]);
    });

    it("MSG-07 a request without a response rejects with the reason after its retries, its time-out or its signal", async () => {
      const { orders, fates } = await conversing({ retry: { baseMs: 2, maxMs: 2, jitterMs: 0 } });
      const request = (options: object) => orders.request.ReserveStock("inventory", { item: "x" }, options);
      fates.push("lost", { acknowledged: false, duplicateDetected: false, error: "no room" });
      await expect(request({ maxRetries: 1 })).rejects.toMatchObject({
        code: "ONCEBOX_REQUEST_FAILED",
        message: expect.stringContaining("no room"),
      });
      fates.push(...Array.from({ length: 4 }, () => "lost" as const));
      const slow = await conversing({ retry: { baseMs: 60_000, jitterMs: 0 } });
      slow.fates.push("lost");
      await expect(
        slow.orders.request.ReserveStock("inventory", { item: "x" }, { timeoutMs: 20 }),
      ).rejects.toThrow(/within 20 ms/);
      await expect(request({ signal: AbortSignal.abort(new Error("stopped")) })).rejects.toThrow("stopped");
    });
  });
}
