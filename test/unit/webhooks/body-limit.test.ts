import { describe, expect, it } from "vitest";
import type { WebhookScheme } from "../../../src/webhooks/index.js";
import { address, reception, signed } from "./support.js";

const acme: WebhookScheme = { verify: { kind: "signature", header: "x-signature" } };
const secrets = "secret";
const limit = 1_000;
const sources = { acme: { scheme: acme, secrets, maxBodyBytes: limit } };
const plain = { "content-type": "text/plain" };
const whole = (length: number) => signed(acme, { secrets, body: "x".repeat(length), headers: plain }, "acme");

/** A body that comes in chunks and counts how many of them were asked for. */
function chunked(chunks: number, size: number, headers: Record<string, string> = {}) {
  const seen = { pulled: 0, cancelled: false };
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (seen.pulled === chunks) return controller.close();
        seen.pulled++;
        controller.enqueue(Buffer.alloc(size, "x"));
      },
      cancel() {
        seen.cancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  const { "x-signature": signature } = Object.fromEntries(whole(chunks * size).headers);
  const request = new Request(address("acme"), {
    method: "POST",
    body,
    duplex: "half",
    headers: { ...plain, "x-signature": signature!, ...headers },
  });
  return { request, seen };
}

describe("the size of a webhook", () => {
  it("FUN-01 a body at the limit is accepted, one byte more is 413", async () => {
    const { route, messages } = await reception({ sources });
    expect((await route(whole(limit))).status).toBe(200);
    const answer = await route(whole(limit + 1));
    expect([answer.status, await answer.json()]).toEqual([413, { error: "too large" }]);
    expect(await messages()).toHaveLength(1);
  });

  it("FUN-01 a declared length above the limit is 413 before a byte is read", async () => {
    const { route } = await reception({ sources });
    const { request, seen } = chunked(1, 10, { "content-length": String(limit + 1) });
    expect((await route(request)).status).toBe(413);
    expect(seen.pulled).toBe(0);
    const { request: absurd } = chunked(1, 10, { "content-length": "9".repeat(400) });
    expect((await route(absurd)).status).toBe(413);
  });

  it("FUN-01 a chunked body is read no further than the limit, whatever length it declares", async () => {
    const { route, messages } = await reception({ sources });
    for (const headers of [{}, { "content-length": "10" }] as Record<string, string>[]) {
      const { request, seen } = chunked(1_000, 100, headers);
      expect((await route(request)).status).toBe(413);
      expect(seen).toEqual({ pulled: 11, cancelled: true });
    }
    expect(await messages()).toEqual([]);
    const { request } = chunked(10, 100);
    expect((await route(request)).status).toBe(200);
    expect((await messages())[0]!.payload).toBe("x".repeat(1_000));
  });

  it("FUN-01 a declared length that is not a number is 400; a wrong one changes nothing, because the signature covers the body", async () => {
    const { route } = await reception({ sources });
    for (const declared of ["-1", "1e3", "0x10", "ten", "10, 10"]) {
      const { request } = chunked(1, 10, { "content-length": declared });
      expect((await route(request)).status, declared).toBe(400);
    }
    const { request } = chunked(2, 10, { "content-length": "500" });
    expect((await route(request)).status).toBe(200);
  });

  it("FUN-01 a connection that closes in the middle of the body is 400, and nothing is stored", async () => {
    const { route, messages } = await reception({ sources });
    let pulled = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (pulled++ > 0) controller.error(new Error("reset"));
        else controller.enqueue(Buffer.from("x"));
      },
    });
    const request = new Request(address("acme"), { method: "POST", body, duplex: "half", headers: plain });
    expect((await route(request)).status).toBe(400);
    expect(await messages()).toEqual([]);
  });

  it("FUN-01 the limit is 5 MiB by default, and can be set for all sources or for each", async () => {
    const open = { acme: { scheme: acme, secrets } };
    const { route } = await reception({ sources: open });
    const mib = 1024 * 1024;
    expect((await route(whole(5 * mib))).status).toBe(200);
    expect((await route(whole(5 * mib + 1))).status).toBe(413);
    const { route: narrow } = await reception({ sources: open, maxBodyBytes: 10 });
    expect((await narrow(whole(11))).status).toBe(413);
    const { route: own } = await reception({ sources, maxBodyBytes: 10 });
    expect((await own(whole(11))).status).toBe(200);
  });
});
