import { generateKeyPairSync } from "node:crypto";
import { signWebhook, type WebhookScheme } from "../../../src/webhooks/index.js";
import { checkScheme } from "../../../src/webhooks/schemes/check-scheme.js";
import { createDelivery } from "../../../src/webhooks/schemes/delivery.js";
import type { KeyRule, SignatureRule } from "../../../src/webhooks/schemes/scheme.js";
import { type ResolvedSource, resolveSources } from "../../../src/webhooks/sources.js";
import { schemes } from "../presets/schemes.js";

export interface AttackTarget {
  readonly name: string;
  readonly scheme: WebhookScheme;
  /** What the source verifies with. */
  readonly secrets: string;
  /** What signs, where that is another key. */
  readonly signWith?: string;
  readonly wrongSecret: string;
  readonly body: string;
  readonly isAsymmetric?: boolean;
}

export interface SignedDelivery {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly url: string;
}

const json = '{"id":"evt_1","type":"paid","amount":100}';
const form = "AccountSid=AC1&Body=Hello+there&MessageStatus=sent&To=%2B1555";
const formType = "application/x-www-form-urlencoded";
const text = { right: "a secret of many bytes", wrong: "a secret of more bytes" };
const encoded = (fill: number) => Buffer.alloc(24, fill);

function keyPair() {
  const jwk = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
  const part = (name: "x" | "d") => Buffer.from(jwk[name]!, "base64url").toString("base64");
  return { publicKey: part("x"), privateKey: part("d") };
}

type Keys = Pick<AttackTarget, "secrets" | "signWith" | "wrongSecret" | "isAsymmetric">;

/** A right and a wrong secret, as the rule wants them written. */
function keysFor({ algorithm, secretEncoding = "utf8", secretPrefix = "" }: KeyRule): Keys {
  if (algorithm === "ed25519") {
    const [right, wrong] = [keyPair(), keyPair()];
    const privateOf = (key: string) => `whsk_${key}`;
    return {
      secrets: `${secretPrefix}${secretPrefix === "whsk_" ? right.privateKey : right.publicKey}`,
      signWith: privateOf(right.privateKey),
      wrongSecret: privateOf(wrong.privateKey),
      isAsymmetric: true,
    };
  }
  if (secretEncoding === "utf8")
    return { secrets: secretPrefix + text.right, wrongSecret: secretPrefix + text.wrong };
  return {
    secrets: secretPrefix + encoded(3).toString(secretEncoding),
    wrongSecret: secretPrefix + encoded(4).toString(secretEncoding),
  };
}

/** One target for each kind of key and of body that the scheme has. */
function targetsOf(name: string, scheme: WebhookScheme): readonly AttackTarget[] {
  const { verify } = scheme;
  if (verify.kind === "token")
    return [{ name, scheme, secrets: text.right, wrongSecret: text.wrong, body: json }];
  if (verify.kind !== "signature") return [];
  const { algorithm = "sha256", secretEncoding = "utf8" } = verify;
  const rules: readonly KeyRule[] = verify.keys ?? [{ algorithm, secretEncoding }];
  const signsForms = [verify.signed ?? ""].flat().some((one) => one.includes("{sortedForm}"));
  const bodies = signsForms ? { "": form, " json": json } : { "": json };
  return rules.flatMap((rule) =>
    Object.entries(bodies).map(([kind, body]) => ({
      name: `${name}${rules.length > 1 ? ` ${rule.secretPrefix ?? "bare"}` : ""}${kind}`,
      scheme,
      body,
      ...keysFor(rule),
    })),
  );
}

const own = (verify: Partial<SignatureRule>): WebhookScheme => ({
  verify: { kind: "signature", header: "x-s", ...verify },
});
/** What the known providers do not use. */
const ownSchemes: Readonly<Record<string, WebhookScheme>> = {
  sha1: own({ algorithm: "sha1" }),
  "sha512 base64url": own({ algorithm: "sha512", encoding: "base64url" }),
  "signed header": own({ signed: "{header:x-id}.{body}" }),
  "hex secret": own({ secretEncoding: "hex" }),
  "timestamp in ms": own({
    signed: "{timestamp}.{body}",
    timestamp: { header: "x-t", unit: "ms" },
    separator: ",",
    prefix: "s=",
  }),
  "two templates": own({ signed: ["{header:x-id}:{body}", "{body}{header:x-id}"] }),
};

/** Every scheme of the table, and those of above. A new one is attacked too. */
export const attackTargets: readonly AttackTarget[] = [
  ...Object.entries(schemes).flatMap(([name, scheme]) => targetsOf(name, scheme)),
  ...Object.entries(ownSchemes).flatMap(([name, scheme]) => targetsOf(name, scheme)),
];

export const attackedAt = new Date("2030-01-01T00:00:00Z");
const address = "https://hooks.example.com/webhooks/s?event=1";

/** How the attacked sources are resolved, but for what they may fetch. */
export const attackedSettings = {
  toleranceMs: 300_000,
  maxBodyBytes: 10_000_000,
  secretsMaxAgeMs: 1e6,
  receiveMs: 1e6,
  readScheme: checkScheme,
  clock: () => attackedAt,
  onStale() {},
};

export function sourceOf({ scheme, secrets }: Pick<AttackTarget, "scheme" | "secrets">): ResolvedSource {
  const { handshakes } = scheme;
  const hasToken = handshakes?.some(({ verifyToken }) => verifyToken !== undefined) ?? false;
  return resolveSources(
    { s: { scheme, secrets, ...(hasToken ? { verifyToken: "another token of bytes" } : {}) } },
    [],
    { ...attackedSettings, fetchText: () => Promise.reject(new Error("nothing is fetched")) },
  ).get("s")!;
}

export interface SignChanges {
  readonly secrets?: string;
  readonly body?: string | Uint8Array;
  readonly url?: string;
  readonly messageId?: string;
}

export function signedFor(
  { scheme, secrets, signWith = secrets, body }: AttackTarget,
  changes: SignChanges = {},
): SignedDelivery {
  const made = signWebhook(scheme, {
    url: address,
    secrets: signWith,
    body,
    headers: { "x-id": "id-1", "content-type": body === form ? formType : "application/json" },
    timestamp: attackedAt,
    messageId: "m-1",
    ...changes,
  });
  const headers = Object.entries(made.headers).map(([name, value]) => [name.toLowerCase(), value]);
  return { headers: Object.fromEntries(headers), body: Buffer.from(made.body as string), url: made.url };
}

export async function openTarget(target: AttackTarget) {
  const source = sourceOf(target);
  return {
    source,
    genuine: signedFor(target),
    /** Of the same message, by another key. */
    wrongProof: () => signedFor(target, { secrets: target.wrongSecret }),
    async verify({ headers, body, url }: SignedDelivery): Promise<boolean> {
      const get = (name: string) => headers[name.toLowerCase()] ?? null;
      const delivery = createDelivery({ method: "POST", url, headers: { get }, body });
      return (await source.verify(delivery)) === undefined;
    },
  };
}

export type OpenTarget = Awaited<ReturnType<typeof openTarget>>;
