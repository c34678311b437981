import { Readable } from "node:stream";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { withoutPayload } from "../../../src/base/redact.js";
import { createWebhookReceiver } from "../../../src/webhooks/route.js";
import { isChallenge } from "../../../src/webhooks/schemes/challenge.js";
import { anyInbox } from "../../support/presets/schemes.js";
import { seededRandom } from "../../support/seeded-random.js";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;
const isLong = process.env.ONCEBOX_TEST_ATTACKS !== undefined;
const random = seededRandom(20);
const below = (n: number): number => Math.floor(random() * n);
const mebibyte = 1_048_576;

const heldBytes = (): number => {
  for (let i = 0; i < 3; i++) collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
};

const nextTurn = () => new Promise(setImmediate);

describe("floods of bodies that nothing proves", () => {
  it("FUN-01 chunks of one byte and stalled bodies take no more memory than the bound", async () => {
    const receive = createWebhookReceiver({
      inbox: anyInbox,
      sources: {
        acme: { scheme: { verify: { kind: "signature", header: "x-s" } }, secrets: "a secret of many bytes" },
      },
      maxUnverifiedBytes: 16 * mebibyte,
    });
    const before = heldBytes();
    const count = isLong ? 300 : 30;
    const bytes = isLong ? 4 * mebibyte : mebibyte;
    const bodies = Array.from({ length: count }, () => new Readable({ read() {} }));
    let refused = 0;
    for (const [index, body] of bodies.entries()) {
      void receive({
        method: "POST",
        url: "http://127.0.0.1/webhooks/acme",
        headers: { get: () => null },
        body,
      }).then(() => {
        refused++;
        body.removeAllListeners("data").resume(); // as the server does: the rest is read and thrown away
      });
      for (let sent = 0; sent < bytes; sent += 65_536) {
        const block = Buffer.allocUnsafeSlow(65_536);
        if (index % 10 > 0 || sent > 0) body.push(block);
        else for (let i = 0; i < 65_536; i++) body.push(block.subarray(i, i + 1));
        await nextTurn();
      }
    }
    const held = heldBytes() - before;
    console.log(
      `${count} stalled bodies of ${bytes} bytes: ${refused} refused, ${Math.round(held / mebibyte)} MiB held`,
    );
    expect(refused).toBeGreaterThan(count / 3);
    expect(held).toBeLessThan(48 * mebibyte); // three times the bound
    for (const body of bodies) body.destroy();
  }, 600_000);
});

describe("forged challenges and redacted texts", () => {
  it("FUN-02 no event has the form of a challenge", () => {
    const count = isLong ? 200_000 : 5_000;
    for (let i = 0; i < count; i++) {
      const noise = Array.from({ length: below(300) }, () => String.fromCharCode(33 + below(90))).join("");
      const event = JSON.stringify(below(2) === 0 ? { [noise]: noise } : [noise]);
      expect(isChallenge(Buffer.from(event))).toBe(false);
    }
    console.log(`${count} events, none of which is a challenge`);
  }, 600_000);

  it("IBX-127 OBX-106 no eight characters of a payload stay in an error's text", () => {
    const count = isLong ? 50_000 : 1_000;
    const letters = 'abAB01 %+\\"é';
    const noise = (length: number) => Array.from({ length }, () => letters[below(letters.length)]).join("");
    for (let i = 0; i < count; i++) {
      const payload = noise(8 + below(400));
      const at = below(payload.length);
      const text = `${noise(below(20))}${payload.slice(at, at + below(60))}${noise(below(20))}`;
      for (const piece of withoutPayload(text, payload).split("[payload]"))
        for (let k = 0; k + 8 <= piece.length; k++)
          expect(payload.toLowerCase()).not.toContain(piece.slice(k, k + 8).toLowerCase());
    }
    console.log(`${count} random texts, none of which quotes its payload`);
  }, 600_000);
});
