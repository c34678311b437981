import { expect } from "vitest";
import * as z from "zod/mini";
import { timeBudget } from "../../src/base/async.js";
import { command, createService, defineMessages, listen, signal } from "../../src/messaging/index.js";
import { openSqlite } from "../../src/sql/sqlite/index.js";

/** What the two services share, and who may see the diagnostics. */
export const shopSecret = Buffer.alloc(24, 7).toString("base64");
export const operatorToken = "alice:a-token-of-messages-1234";

/** As functions/service.ts declares them. */
const messages = defineMessages({
  PlaceOrder: command(z.object({ item: z.string() }), z.object({ orderId: z.string() })),
  OrderPlaced: signal(z.object({ orderId: z.string(), item: z.string() })),
});

/** The functions of functions/service.ts in a cloud's runtime. */
export interface DeployedService {
  /** Where the shop sends to. */
  readonly address: string;
  run(name: "dispatch" | "maintain"): Promise<unknown>;
  logs(): string;
}

/** The service `shop` in this process, which the deployed service exchanges messages with. */
export async function startShop() {
  const db = openSqlite({ file: ":memory:" });
  const placed: string[] = [];
  const responses: string[] = [];
  const shopAt = (address: string) =>
    createService({
      serviceId: "shop",
      db,
      messages,
      destinations: { orders: { address, secrets: [shopSecret], endpoints: ["OrderPlaced"] } },
      receive: { OrderPlaced: ({ orderId }) => void placed.push(orderId) },
      onResponse: { PlaceOrder: ({ orderId }) => void responses.push(orderId) },
      logger: false,
    });
  let shop = shopAt("http://127.0.0.1:9");
  await shop.init();
  const listener = await listen({
    address: "http://127.0.0.1:0/_rf/receive",
    fetch: (request) => shop.receiver.fetch(request),
  });

  return {
    address: listener.address,
    /** An order is received, answered, dispatched and cleaned up after, and the diagnostics say so to who may ask. */
    async walk({ address, run, logs }: DeployedService): Promise<void> {
      await shop.close();
      shop = shopAt(address);
      const messageId = await shop.send.PlaceOrder("orders", { item: "chair" });
      expect(await shop.dispatch(timeBudget(30_000)), logs()).toMatchObject({ acked: 1, stopped: "drained" });
      expect(responses).toEqual([messageId]); // with the acknowledgement
      expect(placed).toEqual([]);

      const ask = async (path: string, token?: string) => {
        const headers: Record<string, string> =
          token === undefined ? {} : { authorization: `Bearer ${token}` };
        const response = await fetch(address.replace(/receive$/, path), { headers });
        const text = await response.text();
        return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
      };
      const paths = ["outbox/stats", "outbox/failed", "inbox/stats"];
      for (const path of paths) {
        expect((await ask(path)).status, path).toBe(401);
        expect((await ask(path, "alice:a-wrong-token-123456")).status, path).toBe(401);
      }
      expect(await ask("health")).toMatchObject({ status: 200, body: { status: "ok" } });
      const stats = async () => (await ask("outbox/stats", operatorToken)).body.counts;
      expect(await stats(), logs()).toMatchObject({ Pending: 2, Sent: 0 }); // the signal, and the response

      expect(await run("dispatch")).toMatchObject({ acked: 2, stopped: "drained" });
      expect(placed).toEqual([messageId]);
      expect(responses).toEqual([messageId]); // once
      expect(await stats()).toMatchObject({ Pending: 0, Sent: 2, Failed: 0 });
      expect(await shop.resend([messageId])).toEqual({ resent: 1 });
      expect(await shop.dispatch(timeBudget(30_000))).toMatchObject({ acked: 1 });
      expect(placed).toEqual([messageId]); // a duplicate sends nothing
      expect((await ask("inbox/stats", operatorToken)).body).toMatchObject({ size: 1 });
      expect(await run("maintain")).toMatchObject({ sent: { done: 0 }, inbox: { done: 0 } });
      for (const hidden of [shopSecret, operatorToken]) expect(logs()).not.toContain(hidden);
    },
    async stop(): Promise<void> {
      await listener.close();
      await shop.close();
      await db.close();
    },
  };
}
