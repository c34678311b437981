import { createHash } from "node:crypto";
import { InvalidArgumentError } from "../../errors.js";
import { checkScheme } from "./check-scheme.js";
import { createDelivery, type Delivery } from "./delivery.js";
import { isHeaderName, isHeaderValue } from "./field-checks.js";
import type { SignatureRule, WebhookScheme } from "./scheme.js";
import { signedBytes } from "./signed-content.js";
import { type SigningKey, toSigningKey } from "./signing-key.js";
import { sortedForm } from "./sorted-form.js";
import type { TemplatePart } from "./template.js";

export interface SignOptions {
  readonly url: string;
  readonly body: string | Uint8Array;
  /** Several secrets make several signatures, where the scheme allows a list of them. */
  readonly secrets: string | readonly string[];
  /** Set in the header that the scheme reads the id from, if it reads it from one. */
  readonly messageId?: string;
  readonly topic?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Now by default. */
  readonly timestamp?: Date;
}

/** In the form that `fetch` and `new Request` take: `fetch(signed.url, signed)`. */
export interface SignedRequest {
  readonly url: string;
  readonly method: "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

/**
 * Returns a request that is signed as the provider would sign it, for tests and for trying things out.
 *
 * @example
 * const signed = signWebhook(stripe, { url, body: '{"id":"evt_1","type":"ping"}', secrets: "whsec_test" });
 * await fetch(signed.url, signed);
 */
export function signWebhook(scheme: WebhookScheme, options: SignOptions): SignedRequest {
  const problems: string[] = [];
  const checked = checkScheme(scheme, problems);
  if (!URL.canParse(options.url)) problems.push("url must be absolute, like https://example.com/webhooks/x");
  const texts = { ...options.headers, messageId: options.messageId ?? "", topic: options.topic ?? "" };
  for (const [name, value] of Object.entries(texts)) {
    if (!isHeaderName(name) || !isHeaderValue(value)) problems.push(`${name} is not allowed in a header`);
  }
  if (problems.length > 0) throw new InvalidArgumentError(`sign: ${problems.join("; ")}.`);
  const headers = new Headers({ "content-type": "application/json", ...options.headers });
  setFrom(headers, checked.messageId[0], options.messageId);
  setFrom(headers, checked.topic[0], options.topic);
  const secrets = typeof options.secrets === "string" ? [options.secrets] : options.secrets;
  const { verify } = checked.scheme;
  const { body } = options;
  const bytes = typeof body === "string" ? Buffer.from(body) : body;
  let { url } = options;
  if (verify.kind === "token") url = withToken(headers, url, checked.proof[0]!, secrets[0]);
  else if (verify.kind === "jwt") throw new InvalidArgumentError("sign: JSON web tokens are not supported.");
  else {
    const keys = secrets.map((secret, index) => keyOf(verify, secret, index));
    if (keys.length === 0) throw new InvalidArgumentError("sign: secrets is empty.");
    url = withDigest(createDelivery({ method: "POST", url, headers, body: bytes }), verify);
    const delivery = createDelivery({ method: "POST", url, headers, body: bytes });
    addSignature(
      delivery,
      { rule: verify, keys, signed: checked.proof[0]!, headers },
      options.timestamp ?? new Date(),
    );
  }
  return { url, method: "POST", headers: Object.fromEntries(headers), body };
}

interface Signing {
  readonly rule: SignatureRule;
  readonly keys: readonly SigningKey[];
  readonly signed: readonly TemplatePart[];
  /** The delivery's headers, to which the signature is added. */
  readonly headers: Headers;
}

function addSignature(delivery: Delivery, { rule, keys, signed, headers }: Signing, at: Date): void {
  const { url } = delivery;
  const timestamp = String(Math.floor(at.getTime() / (rule.timestamp?.unit === "ms" ? 1 : 1_000)));
  const hasDigest = rule.bodyDigestQuery !== undefined && delivery.query.has(rule.bodyDigestQuery);
  const form = hasDigest ? "" : (sortedForm(delivery) ?? "");
  const content = signedBytes(signed, delivery, { timestamp, url, sortedForm: form });
  if (content === undefined) {
    throw new InvalidArgumentError("sign: a signed header is missing. Give messageId or headers.");
  }
  const entries = (rule.separator === undefined ? keys.slice(0, 1) : keys).map(
    (key) => key.prefix + Buffer.from(key.sign(content)).toString(rule.encoding ?? "hex"),
  );
  const header = (rule.header ?? rule.headers?.[0] ?? "").split("|")[0]!;
  if (rule.timestamp !== undefined && "header" in rule.timestamp) {
    const entry = (rule.timestamp.prefix ?? "") + timestamp;
    const own = rule.timestamp.header.split("|")[0]!;
    if (own.toLowerCase() === header.toLowerCase()) entries.unshift(entry);
    else headers.set(own, entry);
  }
  headers.set(header, entries.join(rule.separator));
}

function keyOf(rule: SignatureRule, secret: string, index: number): SigningKey {
  const key = toSigningKey(rule, secret);
  if (typeof key === "string") throw new InvalidArgumentError(`sign: secrets[${index}] ${key}.`);
  return key;
}

/** Adds the body's digest to the URL where the scheme signs a body that is not a form in that way. */
function withDigest(delivery: Delivery, { bodyDigestQuery }: SignatureRule): string {
  const { url, body } = delivery;
  if (bodyDigestQuery === undefined || sortedForm(delivery) !== undefined) return url;
  const target = new URL(url);
  target.searchParams.set(bodyDigestQuery, createHash("sha256").update(body).digest("hex"));
  return target.href;
}

function withToken(
  headers: Headers,
  url: string,
  at: readonly TemplatePart[],
  token: string | undefined,
): string {
  if (!token) throw new InvalidArgumentError("sign: secrets is empty.");
  const [part] = at;
  if (part?.placeholder === "header") headers.set(part.text, token);
  if (part?.placeholder !== "query") return url;
  const target = new URL(url);
  target.searchParams.set(part.text, token);
  return target.href;
}

/** Sets the header when the template is one header and nothing else. */
function setFrom(
  headers: Headers,
  parts: readonly TemplatePart[] | undefined,
  value: string | undefined,
): void {
  const only = parts?.length === 1 ? parts[0] : undefined;
  if (value !== undefined && only?.placeholder === "header") headers.set(only.text, value);
}
