import { createHash } from "node:crypto";
import { InvalidArgumentError } from "../../errors.js";
import { exampleAddress } from "../schemes/certificate-address.js";
import { checkScheme } from "../schemes/check-scheme.js";
import type { Delivery } from "../schemes/delivery.js";
import { isHeaderName, isHeaderValue } from "../schemes/field-checks.js";
import type { CheckedScheme } from "../schemes/read-scheme.js";
import type { PublicKeyAlgorithm, SignatureRule, WebhookScheme } from "../schemes/scheme.js";
import { signedContents, sortedForm } from "../schemes/signed-content.js";
import { pemKey, type SigningKey, secretProblem, toSigningKey } from "../schemes/signing-key.js";
import { type Alternatives, fill } from "../schemes/template.js";
import { type Draft, deliveryOf, setAt, withJson, written, writtenToEach } from "./draft.js";
import { withTokens } from "./sign-tokens.js";

/** What is signed, and how. */
export interface SignOptions {
  readonly url: string;
  readonly body: string | Uint8Array;
  /**
   * Several secrets make several signatures, where the scheme allows it. For a provider that signs with a private key it is
   * a private key of your own, as PEM.
   */
  readonly secrets: string | readonly string[];
  /** Where the secrets are the sender's names, and the provider publishes its key: a private key of your own, as PEM. */
  readonly privateKey?: string;
  /** Set in the header that the scheme reads the id from, if it reads it from one. */
  readonly messageId?: string;
  /** The type of the event, for the header that the scheme reads it from, if it reads it from one. */
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
 * Returns a request that is signed as the provider would sign it, for tests and for trying things out. A signature, a time
 * or a token that belongs in the body is written into it.
 *
 * @example
 * const signed = signWebhook(stripe, { url, body: '{"id":"evt_1","type":"ping"}', secrets: "whsec_test" });
 * await fetch(signed.url, signed);
 */
// A text stays a text. Some compilers' `fetch` does not take every Uint8Array.
export function signWebhook(
  scheme: WebhookScheme,
  options: SignOptions & { readonly body: string },
): SignedRequest & { readonly body: string };
export function signWebhook(scheme: WebhookScheme, options: SignOptions): SignedRequest;
export function signWebhook(scheme: WebhookScheme, options: SignOptions): SignedRequest {
  const problems: string[] = [];
  const checked = checkScheme(scheme, problems);
  if (!URL.canParse(options.url)) problems.push("url must be absolute, like https://example.com/webhooks/x");
  // a list, because a header may have the name "topic" too; the error of Headers would quote its value
  const { messageId = "", topic = "" } = options;
  const texts = [
    ...Object.entries(options.headers ?? {}),
    ["messageId", messageId],
    ["topic", topic],
  ] as const;
  for (const [name, value] of texts) {
    if (!isHeaderName(name) || !isHeaderValue(value)) problems.push(`${name} is not allowed in a header`);
  }
  if (problems.length > 0) throw new InvalidArgumentError(`sign: ${problems.join("; ")}.`);
  const secrets = typeof options.secrets === "string" ? [options.secrets] : options.secrets;
  if (secrets.length === 0) throw new InvalidArgumentError("sign: secrets is empty.");
  for (const [index, secret] of secrets.entries()) {
    const problem = secretProblem(secret.trim());
    if (problem !== undefined) throw new InvalidArgumentError(`sign: secrets[${index}] ${problem}.`);
  }
  const { url, headers, body } = signedDraft(draftOf(checked, options), checked, options, secrets);
  return { url, method: "POST", headers: Object.fromEntries(headers), body };
}

function draftOf(checked: CheckedScheme, { url, body, headers, messageId, topic }: SignOptions): Draft {
  const draft = {
    url: sentUrl(url),
    body,
    headers: new Headers({ "content-type": "application/json", ...headers }),
  };
  setHeader(draft, checked.messageId, messageId);
  setHeader(draft, checked.topic, topic);
  return draft;
}

/** As `fetch` sends it: with escapes, and without the fragment, in which Twilio reads how often it shall try again. */
function sentUrl(url: string): string {
  const sent = new URL(url);
  sent.hash = "";
  return sent.href;
}

/** Sets the header of the first template that is a header and nothing else. It replaces one of `headers`. */
function setHeader(draft: Draft, templates: Alternatives, value: string | undefined): void {
  const header = templates.find((parts) => parts.length === 1 && parts[0]!.placeholder === "header");
  if (value !== undefined) written(draft, header, value);
}

function signedDraft(
  draft: Draft,
  checked: CheckedScheme,
  { privateKey, timestamp: at = new Date() }: SignOptions,
  secrets: readonly string[],
): Draft {
  const { verify } = checked.scheme;
  const [secret = ""] = secrets;
  if (verify.kind === "token")
    return writtenToEach(draft, checked, checked.proof[0]!, () => (verify.prefix ?? "") + secret);
  if (verify.kind === "jwt")
    return withTokens(draft, checked, verify, { senders: secrets, privateKey: privateKey ?? secret, at });
  if (verify.certificate === undefined) {
    const keys = secrets.map((one, index) => keyOf(verify, one, index));
    return withSignature(draft, { checked, rule: verify, keys, at });
  }
  const certified = withCertificate(draft, checked, verify, secret);
  const keys = [certificateKey(certified, checked, verify, secret, privateKey)];
  return withSignature(certified, { checked, rule: verify, keys, at });
}

function keyOf(rule: SignatureRule, secret: string, index: number): SigningKey {
  const key = toSigningKey(rule, secret);
  if (typeof key === "string") throw new InvalidArgumentError(`sign: secrets[${index}] ${key}.`);
  return key;
}

interface Signing {
  readonly checked: CheckedScheme;
  readonly rule: SignatureRule;
  readonly keys: readonly SigningKey[];
  readonly at: Date;
}

/** Adds the time, and the signature of what the scheme says is signed. */
function withSignature(given: Draft, signing: Signing): Draft {
  const { checked, rule, keys, at } = signing;
  const time = timeText(rule, at);
  const draft = withDigest(withTime(given, rule, time), rule);
  const signatures = (event: Delivery) => keys.map((key) => signatureOf(event, key, signing, time));
  if (checked.signatureIn !== undefined)
    return writtenToEach(draft, checked, checked.signatureIn, (event) => signatures(event)[0]!);
  setHeaders(draft.headers, rule, signatures(deliveryOf(draft)), time);
  return draft;
}

function signatureOf(
  event: Delivery,
  key: SigningKey,
  { checked, rule }: Signing,
  timestamp: string,
): string {
  const contents = signedContents(event, { rule, signed: checked.proof }, { timestamp, secret: key.secret });
  if (typeof contents === "string")
    throw new InvalidArgumentError(
      contents === "signed header ambiguous"
        ? "sign: a value that is signed, such as the id, has the sign that ends it. The route would refuse it."
        : "sign: a value that is signed is missing. Give messageId or headers, or a body that has it.",
    );
  return key.prefix + Buffer.from(key.sign(contents[0]!)).toString(rule.encoding ?? "hex");
}

function timeText({ timestamp }: SignatureRule, at: Date): string {
  if (timestamp?.unit === "iso") return at.toISOString();
  return String(Math.floor(at.getTime() / (timestamp?.unit === "ms" ? 1 : 1_000)));
}

/** A time in the body must be there before the body is signed. */
function withTime(draft: Draft, { timestamp }: SignatureRule, time: string): Draft {
  if (timestamp === undefined || !("json" in timestamp)) return draft;
  return withJson(draft, (json) =>
    setAt(json, timestamp.json, timestamp.unit === "iso" ? time : Number(time)),
  );
}

/** Several secrets make several signatures: in a list, or in a header for each. */
function setHeaders(
  headers: Headers,
  rule: SignatureRule,
  signatures: readonly string[],
  time: string,
): void {
  const { timestamp, header, separator } = rule;
  const name = header?.split("|")[0];
  const entries = separator === undefined ? signatures.slice(0, 1) : [...signatures];
  if (timestamp !== undefined && "header" in timestamp) {
    const entry = (timestamp.prefix ?? "") + time;
    const own = timestamp.header.split("|")[0]!;
    if (own.toLowerCase() === name?.toLowerCase()) entries.unshift(entry);
    else headers.set(own, entry);
  }
  if (name !== undefined) headers.set(name, entries.join(separator));
  for (const [index, other] of (rule.headers ?? []).entries()) {
    const signature = signatures[index];
    if (signature !== undefined) headers.set(other, signature);
  }
}

/** Adds the body's digest to the URL where the scheme signs a body that is not a form in that way. */
function withDigest(draft: Draft, { bodyDigestQuery }: SignatureRule): Draft {
  const delivery = deliveryOf(draft);
  if (bodyDigestQuery === undefined || sortedForm(delivery) !== undefined) return draft;
  const target = new URL(draft.url);
  target.searchParams.set(bodyDigestQuery, createHash("sha256").update(delivery.body).digest("hex"));
  return { ...draft, url: target.href };
}

/** Adds what a delivery says about its certificate: its address, the algorithm, and the sender. */
function withCertificate(
  given: Draft,
  { certificateUrl, sender, algorithmBy }: CheckedScheme,
  rule: SignatureRule,
  name: string,
): Draft {
  const address = exampleAddress(rule.certificate!, name);
  const named = written(written(given, certificateUrl, address), sender, name);
  const last = Object.keys(rule.algorithmBy?.is ?? {}).at(-1);
  if (algorithmBy === undefined || last === undefined) return named;
  const isGiven = fill(algorithmBy, deliveryOf(named)) !== undefined;
  return isGiven ? named : written(named, algorithmBy, last);
}

/** The private key that signs, with the name of the sender. */
function certificateKey(
  draft: Draft,
  { algorithmBy }: CheckedScheme,
  rule: SignatureRule,
  name: string,
  privateKey: string | undefined,
): SigningKey {
  if (privateKey === undefined)
    throw new InvalidArgumentError("sign: the provider signs with its own key. Give a privateKey of yours.");
  const named = algorithmBy && fill(algorithmBy, deliveryOf(draft));
  const algorithm = rule.algorithm ?? rule.algorithmBy?.is[named ?? ""];
  const key = pemKey(privateKey.trim(), algorithm as PublicKeyAlgorithm, rule.prefix ?? "");
  if (typeof key === "string") throw new InvalidArgumentError(`sign: privateKey ${key}.`);
  return { ...key, secret: name };
}
