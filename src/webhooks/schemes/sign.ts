import { createHash } from "node:crypto";
import { InvalidArgumentError } from "../../errors.js";
import { createDelivery, type Delivery } from "../delivery.js";
import { isHeaderValue } from "../http.js";
import { schemeOf } from "../sources.js";
import { checkScheme } from "./check-scheme.js";
import { isHeaderName } from "./field-checks.js";
import type { SignatureRule, WebhookScheme } from "./scheme.js";
import type { SchemeName } from "./schemes.js";
import { signedBytes, sortedForm } from "./signature.js";
import { type SigningKey, toSigningKey } from "./signing-key.js";
import type { TemplatePart } from "./template.js";

export interface SignOptions {
  readonly url: string;
  readonly body: string | Uint8Array;
  /** Several make several signatures, where the scheme has a place for them. */
  readonly secrets: string | readonly string[];
  /** Goes into the header that the scheme reads it from, if it does. */
  readonly messageId?: string;
  readonly topic?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Now by default. */
  readonly timestamp?: Date;
}

/** As `fetch` and `new Request` take it: `fetch(signed.url, signed)`. */
export interface SignedRequest {
  readonly url: string;
  readonly method: "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

/**
 * A request as the provider would send it: for tests, and for trying things out.
 *
 * @example
 * const signed = signWebhook("stripe", { url, body: '{"id":"evt_1","type":"ping"}', secrets: "whsec_test" });
 * await fetch(signed.url, signed);
 */
export function signWebhook(scheme: SchemeName | WebhookScheme, options: SignOptions): SignedRequest {
  const problems: string[] = [];
  const checked = checkScheme(
    schemeOf(scheme, (problem) => problems.push(problem)),
    problems,
  );
  if (!URL.canParse(options.url))
    problems.push("url must be a whole one, like https://example.com/webhooks/x");
  const texts = { ...options.headers, messageId: options.messageId ?? "", topic: options.topic ?? "" };
  for (const [name, value] of Object.entries(texts)) {
    if (!isHeaderName(name) || !isHeaderValue(value)) problems.push(`${name} cannot stand in a header`);
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
  else {
    const keys = secrets.map((secret, index) => keyOf(verify, secret, index));
    if (keys.length === 0) throw new InvalidArgumentError("sign: there is no secret.");
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
  /** Of the delivery, to be added to. */
  readonly headers: Headers;
}

function addSignature(delivery: Delivery, { rule, keys, signed, headers }: Signing, at: Date): void {
  const { url } = delivery;
  const timestamp = String(Math.floor(at.getTime() / (rule.timestamp?.unit === "ms" ? 1 : 1_000)));
  const hasDigest = rule.bodyDigestQuery !== undefined && delivery.query.has(rule.bodyDigestQuery);
  const form = hasDigest ? "" : (sortedForm(delivery) ?? "");
  const content = signedBytes(signed, delivery, { timestamp, url, sortedForm: form });
  if (content === undefined) {
    throw new InvalidArgumentError("sign: a header that is signed is missing: give messageId or headers.");
  }
  const entries = (rule.separator === undefined ? keys.slice(0, 1) : keys).map(
    (key) => key.prefix + Buffer.from(key.sign(content)).toString(rule.encoding ?? "hex"),
  );
  if (rule.timestamp !== undefined) {
    const entry = (rule.timestamp.prefix ?? "") + timestamp;
    const sameHeader = rule.timestamp.header.toLowerCase() === rule.header.toLowerCase();
    if (sameHeader) entries.unshift(entry);
    else headers.set(rule.timestamp.header, entry);
  }
  headers.set(rule.header, entries.join(rule.separator));
}

function keyOf(rule: SignatureRule, secret: string, index: number): SigningKey {
  const key = toSigningKey(rule, secret);
  if (typeof key === "string") throw new InvalidArgumentError(`sign: secrets[${index}] ${key}.`);
  return key;
}

/** What is no form is signed by its digest in the URL, where the scheme has that. */
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
  if (!token) throw new InvalidArgumentError("sign: there is no secret.");
  const [part] = at;
  if (part?.place === "header") headers.set(part.text, token);
  if (part?.place !== "query") return url;
  const target = new URL(url);
  target.searchParams.set(part.text, token);
  return target.href;
}

/** Where a template is one header and nothing else, the value goes there. */
function setFrom(
  headers: Headers,
  parts: readonly TemplatePart[] | undefined,
  value: string | undefined,
): void {
  const only = parts?.length === 1 ? parts[0] : undefined;
  if (value !== undefined && only?.place === "header") headers.set(only.text, value);
}
