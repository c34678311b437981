import { generateKeyPairSync } from "node:crypto";
import { describe, expect, it } from "vitest";
import { signWebhook, type WebhookScheme } from "../../../src/webhooks/index.js";
import { createDelivery } from "../../../src/webhooks/schemes/delivery.js";
import { resolveSources } from "../../../src/webhooks/sources.js";
import { schemes } from "../../support/presets/schemes.js";
import { seededRandom } from "../../support/seeded-random.js";

/** `npm run test:attack` says how many. */
const attacks = Number(process.env.ONCEBOX_TEST_ATTACKS ?? 5_500);
const now = new Date("2030-01-01T00:00:00Z");
const text = "a secret of many bytes";
const keyPair = generateKeyPairSync("ed25519");
const part = (name: "x" | "d") =>
  Buffer.from(keyPair.privateKey.export({ format: "jwk" })[name]!, "base64url");
const random = seededRandom(19);
const below = (n: number): number => Math.floor(random() * n);

interface Target {
  readonly scheme: WebhookScheme;
  readonly secrets: string;
  readonly signWith?: string;
  readonly body: string;
  readonly type?: string;
}

const json = '{"id":"evt_1","type":"paid","amount":100}';
const form = "AccountSid=AC1&MessageStatus=sent&To=%2B1";
const own = (verify: object): WebhookScheme => ({ verify: { kind: "signature", header: "x-s", ...verify } });
const targets: Readonly<Record<string, Target>> = {
  stripe: { scheme: schemes.stripe, secrets: text, body: json },
  github: { scheme: schemes.github, secrets: text, body: json },
  shopify: { scheme: schemes.shopify, secrets: text, body: json },
  slack: { scheme: schemes.slack, secrets: text, body: json },
  twilio: { scheme: schemes.twilio, secrets: text, body: form, type: "application/x-www-form-urlencoded" },
  meta: { scheme: schemes.meta, secrets: text, body: json },
  standard: {
    scheme: schemes.standard,
    secrets: `whsec_${Buffer.alloc(24, 3).toString("base64")}`,
    body: json,
  },
  ed25519: {
    scheme: schemes.standard,
    secrets: `whpk_${part("x").toString("base64")}`,
    signWith: `whsk_${part("d").toString("base64")}`,
    body: json,
  },
  sha1: { scheme: own({ algorithm: "sha1" }), secrets: text, body: json },
  sha512: { scheme: own({ algorithm: "sha512", encoding: "base64url" }), secrets: text, body: json },
  header: { scheme: own({ signed: "{header:x-id}.{body}" }), secrets: text, body: json },
};

interface Signed {
  readonly headers: Record<string, string>;
  readonly body: Buffer;
  readonly url: string;
}

/** One change of a byte, a cut, a repetition or another time, in the body or in a header that is signed. */
function mutated(genuine: Signed, signedHeaders: readonly string[]): Signed {
  if (below(2) === 0) return { ...genuine, body: Buffer.from(change(genuine.body)) };
  const name = signedHeaders[below(signedHeaders.length)]!;
  const value = Buffer.from(change(Buffer.from(genuine.headers[name]!))).toString("latin1");
  return { ...genuine, headers: { ...genuine.headers, [name]: value } };
}

function change(bytes: Buffer): Buffer {
  const at = below(bytes.length);
  const kind = below(4);
  if (kind === 0) return bytes.subarray(0, at);
  if (kind === 1) return Buffer.concat([bytes, bytes.subarray(at)]);
  if (kind === 2) return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)]);
  const other = Buffer.from(bytes);
  other[at] = (other[at]! + 1 + below(93)) % 128 || 33;
  return other;
}

describe("mutated signatures", () => {
  const names = Object.keys(targets);

  it.each(names)(
    "FUN-02 %s: no mutation is accepted but those that sign the same",
    async (name) => {
      const { scheme, secrets, signWith = secrets, body, type = "application/json" } = targets[name]!;
      const source = resolveSources(
        { s: { scheme, secrets, ...(scheme === schemes.meta ? { verifyToken: "token" } : {}) } },
        [],
        {
          toleranceMs: 300_000,
          maxBodyBytes: 1e6,
          secretsMaxAgeMs: 1e6,
          receiveMs: 1e6,
          clock: () => now,
          onStale() {},
          fetchText: () => Promise.reject(new Error("nothing is fetched")),
        },
      ).get("s")!;
      const url = "https://hooks.example.com/webhooks/s";
      const headers = { "content-type": type, "x-id": "id-1" };
      const made = signWebhook(scheme, {
        url,
        secrets: signWith,
        body,
        headers,
        timestamp: now,
        messageId: "m-1",
      });
      const lower = Object.fromEntries(
        Object.entries(made.headers as Record<string, string>).map(([k, v]) => [k.toLowerCase(), v]),
      );
      const genuine: Signed = { headers: lower, body: Buffer.from(body), url };
      const verify = ({ headers: given, body: bytes }: Signed) =>
        source.verify(
          createDelivery({
            method: "POST",
            url,
            headers: { get: (one) => given[one.toLowerCase()] ?? null },
            body: bytes,
          }),
        );
      expect(await verify(genuine)).toBeUndefined();
      const signedNames = [
        "x-s",
        "stripe-signature",
        "x-hub-signature-256",
        "x-shopify-hmac-sha256",
        "x-slack-signature",
      ]
        .concat([
          "x-slack-request-timestamp",
          "x-twilio-signature",
          "webhook-signature",
          "webhook-id",
          "webhook-timestamp",
        ])
        .concat(name === "header" ? ["x-id"] : [])
        .filter((one) => lower[one] !== undefined);
      let accepted = 0;
      const count = Math.ceil(attacks / names.length);
      for (let i = 0; i < count; i++) {
        const attack = mutated(genuine, signedNames);
        if ((await verify(attack)) === undefined && !isSameMessage(attack, genuine, name)) accepted++;
      }
      console.log(`${name}: ${count} mutated deliveries, ${accepted} wrongly accepted`);
      expect(accepted).toBe(0);
    },
    600_000,
  );
});

/**
 * The body is as it was, and so is every signed header: only the signature is written in another way, with white space, in
 * capital letters or repeated. Twilio signs a form's names and values without separators, so a form may be divided otherwise.
 */
function isSameMessage(attack: Signed, genuine: Signed, name: string): boolean {
  if (name === "twilio") {
    const flat = (bytes: Buffer) =>
      [...new Set([...new URLSearchParams(bytes.toString())].map(([key, value]) => key + value))]
        .sort()
        .join("");
    return flat(attack.body) === flat(genuine.body) || attack.body.equals(genuine.body);
  }
  const isSameId = ["webhook-id", "webhook-timestamp", "x-id", "x-slack-request-timestamp"].every(
    (one) => attack.headers[one]?.trim() === genuine.headers[one],
  );
  return attack.body.equals(genuine.body) && isSameId;
}
