import { createHash } from "node:crypto";
import { InvalidArgumentError } from "../../errors.js";
import type { Delivery } from "../schemes/delivery.js";
import type { CheckedScheme } from "../schemes/read-scheme.js";
import type { SignatureRule } from "../schemes/scheme.js";
import { signedContents } from "../schemes/signed-content.js";
import type { SigningKey } from "../schemes/signing-key.js";
import { sortedForm } from "../schemes/sorted-form.js";
import { type Draft, deliveryOf, setAt, withJson } from "./draft.js";
import { writtenToEach } from "./write-items.js";

export interface Signing {
  readonly checked: CheckedScheme;
  readonly rule: SignatureRule;
  readonly keys: readonly SigningKey[];
  readonly at: Date;
}

/** Adds the time, and the signature of what the scheme says is signed. */
export function withSignature(given: Draft, signing: Signing): Draft {
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
  if (contents === "signed header ambiguous")
    throw new InvalidArgumentError(
      "sign: a value that is signed, such as the id, has the sign that ends it. The route would refuse it.",
    );
  if (typeof contents === "string")
    throw new InvalidArgumentError(
      "sign: a value that is signed is missing. Give messageId or headers, or a body that has it.",
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
