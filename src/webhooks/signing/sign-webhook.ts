import { InvalidArgumentError } from "../../errors.js";
import { checkScheme } from "../schemes/check-scheme.js";
import { type Alternatives, isHeaderName, isHeaderValue } from "../schemes/field-checks.js";
import type { CheckedScheme } from "../schemes/read-scheme.js";
import type { SignatureRule, WebhookScheme } from "../schemes/scheme.js";
import { type SigningKey, secretProblem, toSigningKey } from "../schemes/signing-key.js";
import { certificateKey, withCertificate } from "./add-certificate.js";
import { withSignature } from "./add-signature.js";
import { withTokens } from "./add-tokens.js";
import { type Draft, written } from "./draft.js";
import { writtenToEach } from "./write-items.js";

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
  const alone = templates.find((parts) => parts.length === 1 && parts[0]!.placeholder === "header");
  if (value !== undefined) written(draft, alone, value);
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
  const keys = [certificateKey(certified, verify, secret, privateKey)];
  return withSignature(certified, { checked, rule: verify, keys, at });
}

function keyOf(rule: SignatureRule, secret: string, index: number): SigningKey {
  const key = toSigningKey(rule, secret);
  if (typeof key === "string") throw new InvalidArgumentError(`sign: secrets[${index}] ${key}.`);
  return key;
}
