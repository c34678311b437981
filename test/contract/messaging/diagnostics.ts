import { expect, it } from "vitest";
import { packageVersion } from "../../../src/base/require-package.js";
import type { ServiceReceiver } from "../../../src/messaging/receiver.js";
import type { ContractHarness } from "../harness.js";
import { gate } from "../support/gate.js";
import { approved, describePairs, dispatch } from "./support.js";

const token = "alice:test-secret-0123456789";
const day = 24 * 60 * 60_000;
const closedPaths = ["outbox/stats", "outbox/failed", "inbox/stats"];

interface Asked {
  readonly method?: string;
  readonly token?: string | null;
}

/** Asks a service for its diagnostics, as a client would. */
async function ask(
  { receiver }: { readonly receiver: Pick<ServiceReceiver, "fetch"> },
  path: string,
  { method = "GET", token: given = token }: Asked = {},
) {
  const headers = given === null ? {} : { authorization: `Bearer ${given}` };
  const response = await receiver.fetch(new Request(`http://127.0.0.1/_rf/${path}`, { method, headers }));
  const text = await response.text();
  return { status: response.status, text, json: text === "" ? undefined : JSON.parse(text) };
}

export function diagnosticsContract(harness: ContractHarness): void {
  describePairs(harness, "diagnostics", (pair) => {
    it("MSG-14 MSG-17 MSG-20 show the document's states, list what failed, and retry it with a new TTL", async () => {
      const sending = gate();
      const finish = gate();
      const { orders, fates, clock } = await pair({
        orders: { admin: { tokens: token }, retry: { maxRetries: 0 }, breaker: false },
      });
      const send = (orderId: string, ttlMs?: number) =>
        orders.send.OrderApproved("inventory", { orderId }, { ttlMs });
      const acknowledged = { acknowledged: true, duplicateDetected: false };
      fates.push(acknowledged, "lost", "lost");
      await send("sent");
      await dispatch(orders);
      const failed = await send("secret-order");
      await dispatch(orders);
      const other = await send("another");
      await dispatch(orders);
      const expired = await send("expired", 1_000);
      clock.advance(1_000);
      await dispatch(orders);
      const stuck = await pair({
        orders: {
          transports: {
            own: [
              {
                schemes: ["inprocess:"],
                async send() {
                  sending.open();
                  await finish.promise;
                  return acknowledged;
                },
                async close() {},
              },
            ],
          },
          admin: { tokens: token },
        },
      });
      await stuck.orders.send.OrderApproved("inventory", { orderId: "sending" });
      const running = dispatch(stuck.orders);
      await sending.promise;
      expect((await ask(stuck.orders, "outbox/stats")).json.counts).toMatchObject({ Sending: 1, Pending: 0 });
      finish.open();
      await running;
      await send("pending");

      expect((await ask(orders, "outbox/stats")).json).toEqual({
        counts: { Pending: 1, Sending: 0, Sent: 1, Failed: 2, Expired: 1 },
        due: 1,
        oldestDueAgeMs: expect.any(Number),
      });
      const listed = await ask(orders, "outbox/failed");
      expect(listed.text).not.toContain("secret-order");
      expect(listed.json.messages.map(({ messageId }: { messageId: string }) => messageId)).toEqual([
        failed,
        other,
      ]);
      expect(listed.json.messages[0]).toEqual({
        messageId: failed,
        correlationId: null,
        messageType: "Signal",
        destination: "inventory",
        endpoint: "OrderApproved",
        state: "Failed",
        retryCount: 0,
        maxRetries: 0,
        nextRetryAt: null,
        lastAttemptAt: expect.any(String),
        lastError: "Error",
        createdAt: expect.any(String),
        sentAt: null,
        expiresAt: expect.any(String),
      });
      const page = (await ask(orders, "outbox/failed?limit=1")).json;
      expect(page.messages).toMatchObject([{ messageId: failed }]);
      const next = (await ask(orders, `outbox/failed?limit=1&after=${page.cursor}`)).json;
      expect(next.messages).toMatchObject([{ messageId: other }]);
      expect((await ask(orders, "outbox/failed?state=Expired")).json.messages).toMatchObject([
        { messageId: expired, state: "Expired" },
      ]);
      expect((await ask(orders, "outbox/failed?state=Sent")).status).toBe(400);

      const retry = (id: string) => ask(orders, `outbox/${id}/retry`, { method: "POST" });
      const expiresAt = new Date(clock().getTime() + day);
      for (const id of [failed, expired]) {
        const retried = await retry(id);
        expect([retried.status, retried.json]).toMatchObject([
          200,
          { messageId: id, state: "Pending", retryCount: 0, expiresAt: expiresAt.toISOString() },
        ]);
        expect(await orders.get(id)).toMatchObject({ state: "Pending", expiresAt });
      }
      expect((await retry(failed)).json.error).toEqual({
        code: "Conflict",
        message: "The message has not failed: its state is Pending.",
      });
      expect((await retry("00000000-0000-4000-8000-000000000000")).status).toBe(404);
      expect((await retry("x")).json.error).toMatchObject({ code: "InvalidField", field: "messageId" });
      // It does expire: a retry by the diagnostics is the service's own.
      clock.advance(day);
      await dispatch(orders);
      expect(await orders.get(failed)).toMatchObject({ state: "Expired" });
    });

    it("MSG-14 inbox stats have the size and the duplicate rate", async () => {
      const { inventory } = await pair({
        inventory: { admin: { tokens: token }, receive: { OrderApproved: () => {} } },
      });
      const stats = async () => (await ask(inventory, "inbox/stats")).json;
      expect(await stats()).toEqual({ size: 0, received: 0, duplicates: 0, duplicateRate: null });
      const first = approved("1");
      for (const message of [first, approved("2"), first, approved("3")])
        await inventory.receiver.receive(message);
      expect(await stats()).toEqual({ size: 3, received: 4, duplicates: 1, duplicateRate: 0.25 });
      expect(await inventory.inboxStats()).toEqual(await stats());
    });

    it("MSG-14 are closed without the admin token; health says no more than ok then", async () => {
      const { orders, inventory, clock, log } = await pair({ orders: { admin: { tokens: [token] } } });
      const failed = "outbox/00000000-0000-4000-8000-000000000000/retry";
      const wrong = "alice:another-secret-0123456789";
      for (const given of [null, wrong, token.slice("alice:".length), ""]) {
        for (const path of closedPaths)
          expect(await ask(orders, path, { token: given }), path).toMatchObject({ status: 401, text: "" });
        expect((await ask(orders, failed, { method: "POST", token: given })).status).toBe(401);
        clock.advance(60_000); // ten wrong tokens in a minute are the most
      }
      for (const path of closedPaths) expect((await ask(orders, path)).status, path).toBe(200);
      expect(await ask(orders, "health", { token: null })).toMatchObject({
        status: 200,
        json: { status: "ok" },
      });
      const health = await ask(orders, "health");
      expect([health.status, health.json]).toEqual([
        200,
        {
          status: "ok",
          version: packageVersion,
          service: "orders",
          outbox: { reachable: true, ...(await orders.outboxStats()) },
          inbox: { reachable: true, ...(await orders.inboxStats()) },
        },
      ]);
      // Without tokens no token is right.
      for (const path of closedPaths) {
        expect((await ask(inventory, path)).status, path).toBe(401);
        expect((await ask(inventory, path, { token: null })).status, path).toBe(401);
      }
      expect((await ask(inventory, "health", { token: null })).json).toEqual({ status: "ok" });
      expect((await ask(inventory, "health")).status).toBe(401);
      expect(log).toContainEqual({
        level: "debug",
        message: "admin",
        fields: { service: "orders", route: "GET outbox/stats", outcome: "OK", status: 200, by: "alice" },
      });
      expect(JSON.stringify(log)).not.toContain("secret-0123456789");
    });
  });
}
