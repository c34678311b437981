import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createWebhookReceiver } from "../../../src/webhooks/route.js";
import { checkScheme } from "../../../src/webhooks/schemes/check-scheme.js";
import {
  type AttackTarget,
  attackTargets,
  openTarget,
  type SignedDelivery,
} from "../../support/attacks/targets.js";
import { isLonger } from "../../support/times.js";

const size = 5 * 1_048_576;
const form = (names: number): Buffer =>
  Buffer.from(
    Array.from({ length: names }, (_, i) => `${"n".repeat(Math.floor(size / names) - 8)}${i}=x`).join("&"),
  );
/** What may cost the most: plain bytes, as many as are hashed twice, forms of few long and of many short fields, and the longest form that is sorted. */
const bodies: Readonly<Record<string, Buffer>> = {
  bytes: Buffer.alloc(size, "x"),
  "4 MiB, of which two signatures are tried": Buffer.alloc(4 * 1_048_576 - 1_000, "x"),
  "long names": form(999),
  "many names": form(200_000),
  "sorted form": form(999).subarray(0, 256 * 1_024),
};

/** As many wrong signatures as a header holds. */
function withManySignatures(
  { headers, ...rest }: SignedDelivery,
  target: AttackTarget,
  proof: string,
): SignedDelivery {
  const scheme = target.scheme;
  const value = headers[proof]!;
  const many = Array.from({ length: 30 }, () => value).join(
    typeof scheme === "string" && scheme === "standard" ? " " : ",",
  );
  return { ...rest, headers: { ...headers, [proof]: many } };
}

/** Processor time, which other work on the machine does not lengthen. */
async function fastestMs(work: () => unknown): Promise<number> {
  let fastest = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 15; i++) {
    const before = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(before);
    fastest = Math.min(fastest, (user + system) / 1_000);
  }
  return fastest;
}

describe("work before a request is believed", () => {
  it.each(attackTargets.map((target) => [target.name, target] as const))(
    "FUN-02 %s: 5 MB with a wrong proof are refused; a long run prints what it costs",
    async (name, target) => {
      const { verify, wrongProof, source } = await openTarget(target);
      const wrong = wrongProof();
      const rule = source.scheme.verify;
      const proof =
        rule.kind === "signature" ? (rule.header ?? "").split("|")[0]!.toLowerCase() : "x-webhook-token";
      let worst = { ms: 0, ratio: 0, body: "" };
      for (const [body, bytes] of Object.entries(bodies))
        for (const attack of [wrong, withManySignatures(wrong, target, proof)]) {
          const delivery = { ...attack, body: bytes };
          expect(await verify(delivery)).toBe(false);
          if (!isLonger) continue;
          const ms = await fastestMs(() => verify(delivery));
          const hashMs = await fastestMs(() => createHash("sha256").update(bodies.bytes!).digest());
          if (ms > worst.ms) worst = { ms, ratio: ms / hashMs, body };
        }
      if (isLonger)
        console.log(
          `work, ${name}: at most ${worst.ms.toFixed(1)} ms for 5 MB (${worst.body}), ${worst.ratio.toFixed(2)} times a SHA-256 of 5 MB`,
        );
    },
    600_000,
  );

  it("FUN-01 a refused request of 5 MB does not reach the inbox", async () => {
    const receive = createWebhookReceiver(
      {
        inbox: { receive: () => expect.unreachable(), enqueue: () => expect.unreachable() },
        sources: { s: { scheme: "github", secrets: "a secret of many bytes" } },
      },
      checkScheme,
    );
    const headers: Record<string, string> = {
      "x-hub-signature-256": `sha256=${"0".repeat(64)}`,
      "content-type": "application/json",
    };
    const request = {
      method: "POST",
      url: "http://127.0.0.1/webhooks/s",
      headers: { get: (one: string) => headers[one] ?? null },
    };
    expect((await receive({ ...request, body: bodies.bytes! })).status).toBe(401);
    if (!isLonger) return;
    const ms = await fastestMs(() => receive({ ...request, body: bodies.bytes! }));
    console.log(`work, the whole route: ${ms.toFixed(1)} ms for 5 MB`);
  });
});
