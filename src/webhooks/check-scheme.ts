import type { Handshake, SignatureRule, TokenRule, WebhookScheme } from "./scheme.js";
import {
  type Place,
  parseTemplate,
  placesInEvent,
  placesInHead,
  placesInSignedContent,
  type TemplatePart,
  type Templates,
} from "./template.js";

export type Alternatives = readonly (readonly TemplatePart[])[];

/** A scheme with its templates taken apart. */
export interface CheckedScheme {
  readonly scheme: WebhookScheme;
  /** What is signed, or where the token is. */
  readonly proof: Alternatives;
  readonly messageId: Alternatives;
  readonly topic: Alternatives;
  readonly tenant: Alternatives;
  readonly handshakes: readonly CheckedHandshake[];
}

export interface CheckedHandshake {
  readonly method: Handshake["method"];
  readonly when: readonly { readonly parts: readonly TemplatePart[]; readonly equals: string }[];
  readonly verifyToken: readonly TemplatePart[] | undefined;
  readonly text: readonly TemplatePart[] | undefined;
  readonly json: NamedTemplates | undefined;
  readonly headers: NamedTemplates;
}

export type NamedTemplates = readonly (readonly [name: string, parts: readonly TemplatePart[]])[];

const schemeFields = [
  "verify",
  "messageId",
  "topic",
  "tenant",
  "keepHeaders",
  "volatileFields",
  "contentTypes",
  "handshakes",
  "answer",
];
const signatureFields = [
  "kind",
  "header",
  "separator",
  "prefix",
  "signed",
  "algorithm",
  "encoding",
  "secretEncoding",
  "keys",
  "timestamp",
  "bodyDigestQuery",
];
/** A header like this is a secret or as good as one, and is not kept. */
const secretHeader =
  /signature|authori[sz]ation|cookie|secret|password|hmac|credential|api-?key|(?:^|[-_])token/i;

/** Takes a scheme apart; what is wrong with it is added to `problems`. It may come from a JSON file, so nothing is taken for granted. */
export function checkScheme(given: unknown, problems: string[]): CheckedScheme {
  const report = (problem: string): void => {
    problems.push(problem);
  };
  const scheme = (isObject(given) ? given : {}) as unknown as WebhookScheme;
  if (!isObject(given)) report("scheme must be a known name or an object");
  refuseFields(scheme, schemeFields, "scheme", report);
  checkTexts(scheme.keepHeaders, "keepHeaders", report);
  checkTexts(scheme.volatileFields, "volatileFields", report);
  checkTexts(scheme.contentTypes, "contentTypes", report);
  for (const name of asList(scheme.keepHeaders)) {
    if (!isHeaderName(name)) report(`keepHeaders: ${String(name)} is no header's name`);
    else if (secretHeader.test(name)) report(`keepHeaders: ${name} may hold a secret and is not kept`);
  }
  if (
    scheme.answer !== undefined &&
    !(isText(scheme.answer.contentType) && typeof scheme.answer.body === "string")
  ) {
    report("answer must be { contentType, body }");
  }
  return {
    scheme,
    proof: checkVerify(scheme.verify, report),
    messageId: parseAll(scheme.messageId, placesInEvent, "messageId", report),
    topic: parseAll(scheme.topic, placesInEvent, "topic", report),
    tenant: parseAll(scheme.tenant, placesInEvent, "tenant", report),
    handshakes: asList(scheme.handshakes).map((one, index) =>
      checkHandshake(one, `handshakes[${index}]`, report),
    ),
  };
}

type Report = (problem: string) => void;

function checkVerify(verify: SignatureRule | TokenRule | undefined, report: Report): Alternatives {
  if (verify?.kind === "token") {
    refuseFields(verify, ["kind", "token"], "verify", report);
    if (asList(verify.token).length === 0) report("verify.token is missing");
    return parseAll(verify.token, placesInHead, "verify.token", report);
  }
  if (verify?.kind === "signature") return checkSignature(verify, report);
  report('verify.kind must be "signature" or "token"');
  return [];
}

function checkSignature(rule: SignatureRule, report: Report): Alternatives {
  refuseFields(rule, signatureFields, "verify", report);
  checkHeaderPart(rule, "verify", report);
  oneOf(rule.encoding, ["hex", "base64", "base64url"], "verify.encoding", report);
  oneOf(rule.algorithm, digests, "verify.algorithm", report);
  oneOf(rule.secretEncoding, secretEncodings, "verify.secretEncoding", report);
  if (rule.keys !== undefined) checkKeys(rule, report);
  if (rule.timestamp !== undefined) {
    checkHeaderPart(rule.timestamp, "verify.timestamp", report);
    refuseFields(rule.timestamp, ["header", "separator", "prefix", "unit"], "verify.timestamp", report);
    oneOf(rule.timestamp?.unit, ["s", "ms"], "verify.timestamp.unit", report);
  }
  const signed = parseAll(rule.signed ?? "{body}", placesInSignedContent, "verify.signed", report);
  if (signed.length === 0 && asList(rule.signed).length === 0) report("verify.signed is empty");
  for (const parts of signed) checkSigned(parts, rule, report);
  return signed;
}

/** A signature that does not cover the body, or a time nobody signed, protects nothing. */
function checkSigned(parts: readonly TemplatePart[], rule: SignatureRule, report: Report): void {
  const has = (place: Place) => parts.some((part) => part.place === place);
  if (!has("body") && !has("sortedForm")) report("verify.signed leaves the body out: add {body}");
  if (has("timestamp") && rule.timestamp === undefined)
    report("verify.signed has a {timestamp}, and verify.timestamp does not say where it is");
  if (!has("timestamp") && rule.timestamp !== undefined)
    report("verify.timestamp is not part of verify.signed, so that anybody could change it");
  if (rule.bodyDigestQuery !== undefined && !has("url"))
    report("verify.bodyDigestQuery needs the {url} in verify.signed");
}

const digests = ["sha1", "sha256", "sha512"];
const secretEncodings = ["utf8", "hex", "base64"];

function checkKeys({ keys, algorithm, secretEncoding }: SignatureRule, report: Report): void {
  if (asList(keys).length === 0) report("verify.keys is empty");
  if (algorithm !== undefined || secretEncoding !== undefined)
    report("verify.keys says algorithm and secretEncoding itself");
  for (const [index, key] of asList(keys).entries()) {
    const name = `verify.keys[${index}]`;
    refuseFields(key, ["algorithm", "secretEncoding", "secretPrefix", "prefix"], name, report);
    oneOf(key?.algorithm, [...digests, "ed25519"], `${name}.algorithm`, report);
    if (key?.algorithm === undefined) report(`${name}.algorithm is missing`);
    oneOf(key?.secretEncoding, secretEncodings, `${name}.secretEncoding`, report);
  }
}

function checkHandshake(given: Handshake, name: string, report: Report): CheckedHandshake {
  const handshake = (isObject(given) ? given : {}) as Handshake;
  refuseFields(handshake, ["method", "when", "verifyToken", "answer"], name, report);
  const { answer } = handshake;
  oneOf(handshake.method ?? "", ["GET", "POST", "OPTIONS"], `${name}.method`, report);
  if (!isObject(answer)) report(`${name}.answer must be an object`);
  else refuseFields(answer, ["text", "json", "headers"], `${name}.answer`, report);
  const one = (template: unknown, what: string, places = placesInEvent) => {
    const parts = parseTemplate(template, places);
    if (typeof parts === "string") report(`${name}.${what} ${parts}`);
    return typeof parts === "string" ? [] : parts;
  };
  const all = (templates: unknown, what: string): NamedTemplates =>
    Object.entries(isObject(templates) ? templates : {}).map(([key, value]) => [
      key,
      one(value, `${what}.${key}`),
    ]);
  return {
    method: handshake.method,
    when: Object.entries(handshake.when ?? {}).map(([template, equals]) => ({
      parts: one(template, "when"),
      equals: String(equals),
    })),
    verifyToken:
      handshake.verifyToken === undefined
        ? undefined
        : one(handshake.verifyToken, "verifyToken", placesInHead),
    text: answer?.text === undefined ? undefined : one(answer.text, "answer.text"),
    json: answer?.json === undefined ? undefined : all(answer.json, "answer.json"),
    headers: all(answer?.headers, "answer.headers"),
  };
}

export function parseAll(
  templates: Templates | undefined,
  places: readonly Place[],
  name: string,
  report: Report,
): Alternatives {
  return asList(templates).flatMap((template) => {
    const parts = parseTemplate(template, places);
    if (typeof parts !== "string") return [parts];
    report(`${name} ${parts}`);
    return [];
  });
}

function checkHeaderPart(
  part: { readonly header?: unknown } | undefined,
  name: string,
  report: Report,
): void {
  if (!isHeaderName(part?.header)) report(`${name}.header must be a header's name`);
  for (const field of ["separator", "prefix"] as const) {
    const value = (part as Record<string, unknown> | undefined)?.[field];
    if (value !== undefined && !isText(value)) report(`${name}.${field} must be a non-empty string`);
  }
}

function checkTexts(value: unknown, name: string, report: Report): void {
  if (value !== undefined && !(Array.isArray(value) && value.every(isText)))
    report(`${name} must be a list of strings`);
}

function oneOf(value: unknown, known: readonly string[], name: string, report: Report): void {
  if (value !== undefined && !known.includes(value as string))
    report(`${name} must be one of ${known.join(", ")}`);
}

export function refuseFields(value: object, known: readonly string[], name: string, report: Report): void {
  if (!isObject(value)) report(`${name} must be an object`);
  for (const field of Object.keys(value ?? {})) {
    if (!known.includes(field)) report(`${name} has an unknown field ${field}; known: ${known.join(", ")}`);
  }
}

const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isText = (value: unknown): value is string => typeof value === "string" && value !== "";
const isHeaderName = (value: unknown): value is string =>
  typeof value === "string" && /^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(value);
const asList = <T>(value: T | readonly T[] | undefined): readonly T[] =>
  value === undefined ? [] : Array.isArray(value) ? value : [value as T];
