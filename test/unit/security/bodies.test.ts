import { Readable } from "node:stream";
import { describe, expect, it } from "vitest";
import { type BodyLimits, readBody } from "../../../src/http/body.js";
import { signWebhook, type WebhookScheme } from "../../../src/webhooks/index.js";
import { createWebhookReceiver } from "../../../src/webhooks/route.js";
import { checkScheme } from "../../../src/webhooks/schemes/check-scheme.js";
import { heldBytes, nextTurn, push, stalled } from "../../support/attacks/stalled-bodies.js";
import { anyInbox } from "../../support/presets/schemes.js";

const noHeaders = { get: () => null };
const read = (body: Readable, limits: BodyLimits) => readBody({ headers: noHeaders, body }, limits);

describe("webhook bodies that are not verified yet", () => {
  it("FUN-01 a body in chunks of one byte takes no more memory than its bytes", async () => {
    const size = 500_000;
    const before = heldBytes();
    const body = stalled();
    const reading = read(body, { maxBytes: size });
    await push(body, size, "bytes");
    expect(heldBytes() - before).toBeLessThan(10 * size);
    body.push(null);
    expect(((await reading) as Uint8Array).byteLength).toBe(size);
  });

  it("FUN-01 a body that does not arrive in time is refused", async () => {
    const body = stalled();
    body.push("begun");
    expect(await read(body, { maxBytes: 100, withinMs: 5 })).toBe("too slow");
    const web = new ReadableStream<Uint8Array>();
    expect(await readBody({ headers: noHeaders, body: web }, { maxBytes: 100, withinMs: 5 })).toBe(
      "too slow",
    );
  });

  const scheme: WebhookScheme = { verify: { kind: "signature", header: "x-signature" } };
  const secrets = "a secret of many bytes";
  const url = "http://127.0.0.1/webhooks/acme";

  const receiver = (options: object) =>
    createWebhookReceiver(
      {
        inbox: anyInbox,
        sources: { acme: { scheme, secrets, maxBodyBytes: 10_000 } },
        ...options,
      },
      checkScheme,
    );

  const signed = () => {
    const { headers, body } = signWebhook(scheme, { url, secrets, body: '{"small":true}' });
    const given = new Headers(headers);
    return { method: "POST", url, headers: given, body: Readable.from([Buffer.from(body as string)]) };
  };

  it("FUN-01 stalled bodies are refused in favour of small ones, and their memory is bounded", async () => {
    const receive = receiver({ maxUnverifiedBytes: 50_000 });
    const bodies = Array.from({ length: 40 }, stalled);
    const statuses: number[] = [];
    for (const body of bodies) {
      void receive({ method: "POST", url, headers: noHeaders, body }).then(({ status }) =>
        statuses.push(status),
      );
      body.push(Buffer.alloc(9_000));
      await nextTurn();
    }
    expect((await receive(signed())).status).toBe(200);
    expect(statuses.length).toBeGreaterThanOrEqual(35);
    expect(new Set(statuses)).toEqual(new Set([503]));
    for (const body of bodies) body.destroy();
  });

  it("FUN-01 when there are too many bodies, the oldest is refused", async () => {
    const receive = receiver({});
    const bodies = Array.from({ length: 1_001 }, stalled);
    const ends: number[] = [];
    for (const [index, body] of bodies.entries())
      void receive({ method: "POST", url, headers: noHeaders, body }).then(() => ends.push(index));
    await expect.poll(() => ends).toEqual([0]);
    expect((await receive(signed())).status).toBe(200);
    for (const body of bodies) body.destroy();
  });

  it("FUN-01 a webhook that is too slow gets 408", async () => {
    const receive = receiver({ bodyMs: 5 });
    expect((await receive({ method: "POST", url, headers: noHeaders, body: stalled() })).status).toBe(408);
  });

  it("FUN-01 a body is read only after the secrets are known", async () => {
    let fetched = (_: string): void => {};
    const secret = () =>
      new Promise<string>((resolve) => {
        fetched = resolve;
      });
    const receive = receiver({ sources: { acme: { scheme, secrets: secret } } });
    const request = signed();
    const response = receive(request);
    await nextTurn();
    expect(request.body.readableFlowing).toBe(null);
    fetched(secrets);
    expect((await response).status).toBe(200);
  });
});
