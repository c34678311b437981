import { expect, it } from "vitest";
import { omitUndefined } from "../../../src/base/defined.js";
import { idempotentHttp } from "../../../src/middleware/idempotent-http.js";
import { currentTransaction, publish } from "../../../src/middleware/transaction.js";
import type { ContractHarness } from "../harness.js";
import { inSchemaOf } from "../support/database.js";
import { gate } from "../support/gate.js";
import { describeShops, insertOrder, type Shop } from "./support.js";

const post = (key: string | undefined, body: string, path = "/orders"): Request =>
  new Request(`https://shop.example${path}`, {
    method: "POST",
    body,
    headers: omitUndefined({ "idempotency-key": key }),
  });

function options(shop: Shop) {
  return {
    transaction: shop.transaction,
    outbox: shop.outbox,
    subscriber: "api",
    scope: "all callers" as const,
    table: shop.names.inbox,
    ...inSchemaOf(shop.database),
  };
}

export function httpContract(harness: ContractHarness): void {
  describeShops(harness, "idempotent HTTP", ({ shop }) => {
    it("MID-03 the same key and request get the first response without being handled", async () => {
      const made = await shop();
      let calls = 0;
      const handle = idempotentHttp(options(made), async (request) => {
        calls++;
        await insertOrder(made, currentTransaction(), await request.text());
        publish({ topic: "order.placed", payload: "event" });
        return new Response(`order ${calls}`, {
          status: 201,
          headers: { location: "/orders/1", "x-n": "1" },
        });
      });
      const first = await handle(post('"k1"', "o-1"));
      const again = await handle(post('"k1"', "o-1"));
      for (const response of [first, again]) {
        expect(response.status).toBe(201);
        expect(response.headers.get("location")).toBe("/orders/1");
        expect(await response.text()).toBe("order 1");
      }
      expect(calls).toBe(1);
      expect(await made.orders()).toEqual(["o-1"]);
      expect(await made.outgoing()).toEqual(["event"]);
    });

    it("MID-03 the same key with another request gets 422, and a request without a key 400", async () => {
      const made = await shop();
      const handle = idempotentHttp(options(made), async () => new Response("ok"));
      expect((await handle(post('"k"', "one"))).status).toBe(200);
      expect((await handle(post('"k"', "two"))).status).toBe(422);
      expect((await handle(post('"k"', "one", "/refunds"))).status).toBe(422);
      expect((await handle(post('"k"', "one"))).status).toBe(200);
      for (const key of [undefined, '""', "x".repeat(256), '"broken'])
        expect((await handle(post(key, "one"))).status).toBe(400);
    });

    it("MID-02 MID-06 where no key is required, every request without one is handled in a transaction", async () => {
      const made = await shop();
      let status = 200;
      const handle = idempotentHttp({ ...options(made), required: false }, async (request) => {
        await insertOrder(made, currentTransaction(), await request.text());
        publish({ topic: "order.placed", payload: "event" });
        return new Response("ok", { status });
      });
      expect((await handle(post(undefined, "one"))).status).toBe(200);
      expect((await handle(post(undefined, "two"))).status).toBe(200);
      status = 500;
      expect((await handle(post(undefined, "three"))).status).toBe(500);
      expect(await made.orders()).toEqual(["one", "two"]);
      expect(await made.outgoing()).toEqual(["event", "event"]);
    });

    it("MID-03 with a scope each caller has its own keys", async () => {
      const made = await shop();
      let calls = 0;
      const scope = (request: Request) => new URL(request.url).pathname;
      const handle = idempotentHttp(
        { ...options(made), scope },
        async (request) => new Response(`${++calls} for ${scope(request)}`),
      );
      const answers = [];
      for (const path of ["/ann", "/bob", "/ann"])
        answers.push(await (await handle(post('"k"', "one", path))).text());
      expect(answers).toEqual(["1 for /ann", "2 for /bob", "1 for /ann"]);
      const withoutScope = idempotentHttp(
        { ...options(made), scope: () => "" },
        async () => new Response("ok"),
      );
      await expect(withoutScope(post('"k"', "one"))).rejects.toThrow(/whose request/);
    });

    it("MID-03 a scope is required, and a stored response has no cookies", async () => {
      const made = await shop();
      const { scope: _, ...withoutScope } = options(made);
      expect(() => idempotentHttp(withoutScope as never, async () => new Response("ok"))).toThrow(
        /whose request it is.*scope: "all callers"/s,
      );
      const handle = idempotentHttp(options(made), async () => {
        const headers = new Headers({ "x-kept": "yes" });
        headers.append("set-cookie", "session=first; HttpOnly");
        headers.append("set-cookie", "theme=dark");
        return new Response("ok", { headers });
      });
      const first = await handle(post('"k"', "one"));
      expect(first.headers.getSetCookie()).toEqual(["session=first; HttpOnly", "theme=dark"]);
      const again = await handle(post('"k"', "one"));
      expect([again.headers.get("x-kept"), again.headers.getSetCookie()]).toEqual(["yes", []]);
    });

    it("MID-03 a second request gets 409 while the first is handled, and its response afterwards", async () => {
      const made = await shop();
      const inside = gate();
      const door = gate();
      const handle = idempotentHttp(options(made), async () => {
        inside.open();
        await door.promise;
        return new Response("done");
      });
      // As another instance of the function. On SQLite that instance would wait for the only writer, so the same one is used.
      const isShared = made.database.db.dialect.name === "sqlite";
      const second = isShared ? handle : idempotentHttp(options(made), async () => new Response("twice"));
      const first = handle(post('"k"', "one"));
      await inside.promise;
      expect((await second(post('"k"', "one"))).status).toBe(409);
      door.open();
      expect(await (await first).text()).toBe("done");
      expect(await (await second(post('"k"', "one"))).text()).toBe("done");
    });

    it("MID-03 concurrent requests with a finished key all get its response, in one instance and in two", async () => {
      const made = await shop();
      let calls = 0;
      const instance = () => idempotentHttp(options(made), async () => new Response(`call ${++calls}`));
      const [one, two] = [instance(), instance()];
      await one(post('"k"', "same"));
      const responses = await Promise.all(
        Array.from({ length: 12 }, (_, n) => (n % 3 === 0 ? two : one)(post('"k"', "same"))),
      );
      expect(responses.map(({ status }) => status)).toEqual(Array(12).fill(200));
      for (const response of responses) expect(await response.text()).toBe("call 1");
      const others = await Promise.all([1, 2, 3].map((n) => one(post('"k"', `other ${n}`))));
      expect(others.map(({ status }) => status)).toEqual([422, 422, 422]);
    });

    it.each([
      ["with a key", { "idempotency-key": '"large"' }],
      ["without a key", {}],
    ])(
      "MID-03 a body above the limit gets 413, and reading stops at the limit: %s",
      async (_which, headers) => {
        const made = await shop();
        const handle = idempotentHttp(
          { ...options(made), maxBodyBytes: 2_000, required: false },
          async (request) => new Response(await request.text()),
        );
        let chunks = 0;
        let isCancelled = false;
        const body = new ReadableStream<Uint8Array>({
          pull(controller) {
            if (++chunks > 1_000) controller.close();
            else controller.enqueue(new Uint8Array(1_000));
          },
          cancel() {
            isCancelled = true;
          },
        });
        const streamed: RequestInit & { duplex: "half" } = {
          method: "POST",
          body,
          duplex: "half",
          headers,
        };
        expect((await handle(new Request("https://shop.example/orders", streamed))).status).toBe(413);
        expect(chunks).toBeLessThan(10);
        expect(isCancelled).toBe(true);
        const fits = await handle(post('"fits"', "x".repeat(2_000)));
        expect(await fits.text()).toBe("x".repeat(2_000));
        expect((await handle(post('"declared"', "x".repeat(2_001)))).status).toBe(413);
      },
    );

    it("MID-02 after an error or a 5xx nothing is stored, so the client may try again", async () => {
      const made = await shop();
      const answers = [
        () => new Response("away", { status: 503 }),
        () => {
          throw new Error("broken");
        },
        () => new Response(null, { status: 204 }),
      ];
      const handle = idempotentHttp(options(made), async () => {
        await insertOrder(made, currentTransaction(), "o");
        return answers.shift()!();
      });
      expect((await handle(post('"k"', "one"))).status).toBe(503);
      await expect(handle(post('"k"', "one"))).rejects.toThrow("broken");
      expect(await made.orders()).toEqual([]);
      expect((await handle(post('"k"', "one"))).status).toBe(204);
      expect((await handle(post('"k"', "one"))).status).toBe(204);
      expect(await made.orders()).toEqual(["o"]);
    });
  });
}
