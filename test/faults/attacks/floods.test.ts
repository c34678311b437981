import { connect } from "node:http2";
import type { Readable } from "node:stream";
import { describe, expect, it, onTestFinished } from "vitest";
import { silentLogger } from "../../../src/base/logger.js";
import { listen } from "../../../src/messaging/index.js";
import { createWebhookReceiver } from "../../../src/webhooks/route.js";
import { checkScheme } from "../../../src/webhooks/schemes/check-scheme.js";
import { openHttpApis } from "../../support/attacks/http-apis.js";
import { heldBytes, push, stalled } from "../../support/attacks/stalled-bodies.js";
import { anyInbox } from "../../support/presets/schemes.js";
import { isLonger } from "../../support/times.js";

const mebibyte = 1_048_576;
const noHeaders = { get: () => null };

/** Sends bodies that never end, every tenth of them with its first 64 KiB in chunks of one byte. */
async function flood(
  what: string,
  { count, bytes, bound }: { readonly count: number; readonly bytes: number; readonly bound: number },
  receive: (body: Readable) => Promise<{ readonly status: number }>,
): Promise<void> {
  const before = heldBytes();
  const bodies = Array.from({ length: count }, stalled);
  let refused = 0;
  for (const [index, body] of bodies.entries()) {
    void receive(body).then(() => {
      refused++;
      body.removeAllListeners("data").resume(); // as the server does: the rest is read and thrown away
    });
    const first = index % 10 === 0 ? 65_536 : 0;
    await push(body, first, "bytes");
    await push(body, bytes - first);
  }
  const held = heldBytes() - before;
  console.log(
    `${what}: ${count} stalled bodies of ${bytes} bytes, ${refused} refused, ${mebibytes(held)} held`,
  );
  expect(refused).toBeGreaterThan(count / 3);
  expect(held).toBeLessThan(bound);
  for (const body of bodies) body.destroy();
}

const mebibytes = (bytes: number): string => `${Math.round(bytes / mebibyte)} MiB`;

describe("floods of bodies that nothing proves", () => {
  it("FUN-01 webhooks: one-byte chunks and stalled bodies take no more memory than the bound", async () => {
    const scheme = { verify: { kind: "signature", header: "x-s" } } as const;
    const receive = createWebhookReceiver(
      {
        inbox: anyInbox,
        sources: { acme: { scheme, secrets: "a secret of many bytes" } },
        maxUnverifiedBytes: 16 * mebibyte,
      },
      checkScheme,
    );
    const size = isLonger ? { count: 300, bytes: 4 * mebibyte } : { count: 30, bytes: mebibyte };
    await flood("webhooks", { ...size, bound: 48 * mebibyte }, (body) =>
      receive({ method: "POST", url: "http://127.0.0.1/webhooks/acme", headers: noHeaders, body }),
    );
  }, 600_000);

  it.runIf(isLonger)(
    "MSG-18 the messaging receiver: as many as it takes to pass its 64 MiB several times",
    async () => {
      const { messaging, close } = await openHttpApis(silentLogger);
      onTestFinished(close);
      const size = { count: 500, bytes: mebibyte - 1, bound: 192 * mebibyte };
      await flood("messaging by HTTP", size, (body) =>
        messaging.receiver.handle({ method: "POST", headers: noHeaders, body }),
      );
    },
    600_000,
  );

  it.runIf(isLonger)(
    "MSG-09 gRPC: stalled calls on several connections",
    async () => {
      const { messaging, close } = await openHttpApis(silentLogger);
      const listener = await listen({
        address: "grpc://127.0.0.1:0",
        receiver: messaging.receiver,
        stopMs: 100,
      });
      const url = new URL(listener.address.replace("grpc:", "http:"));
      const clients = Array.from({ length: 5 }, () =>
        connect(url.origin, { maxSessionMemory: 1_000 }).on("error", () => {}),
      );
      onTestFinished(async () => {
        for (const client of clients) client.destroy();
        await listener.close();
        await close();
      });
      const block = Buffer.alloc(65_536); // one for all, so that the senders take no memory
      const head = Buffer.alloc(5);
      head.writeUInt32BE(mebibyte - 1, 1);
      const before = heldBytes();
      let refused = 0;
      const count = 100 * clients.length;
      for (let n = 0; n < count; n++) {
        const call = clients[n % clients.length]!.request({
          ":method": "POST",
          ":path": url.pathname,
          "content-type": "application/grpc",
        });
        call.on("error", () => {}).once("close", () => refused++); // with its connection
        call.write(head);
        for (let sent = 0; sent < 15; sent++) call.write(block);
      }
      await expect.poll(() => refused, { timeout: 300_000, interval: 500 }).toBeGreaterThan(count / 2);
      const held = heldBytes() - before;
      console.log(`gRPC: ${count} stalled calls, ${refused} refused, ${mebibytes(held)} held`);
      expect(held).toBeLessThan(192 * mebibyte);
    },
    600_000,
  );
});
