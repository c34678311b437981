import { type CheckedSplit, readSplit } from "./delivery.js";
import {
  type Alternatives,
  asList,
  objectOf,
  parseAll,
  parseOne,
  parseOptional,
  type Report,
} from "./field-checks.js";
import type {
  Handshake,
  JsonTemplate,
  JwtRule,
  RefusalName,
  SignatureRule,
  VerifyRule,
  WebhookScheme,
} from "./scheme.js";
import {
  type Placeholder,
  placeholdersInEvent,
  placeholdersInHead,
  placeholdersInSignedBody,
  placeholdersInSignedContent,
  placeholdersOfId,
  placeholdersOfTenant,
  type TemplatePart,
} from "./template.js";

export interface CheckedHandshake {
  readonly method: Handshake["method"];
  /** Whether it uses only headers and query, so that it is recognised before the body is read. */
  readonly isInHead: boolean;
  /** Whether it is one event of several: the others are stored. */
  readonly isPerItem: boolean;
  readonly store: true | undefined;
  readonly when: readonly { readonly parts: readonly TemplatePart[]; readonly equals: string | undefined }[];
  readonly verifyToken: readonly TemplatePart[] | undefined;
  readonly unsigned: true | undefined;
  readonly status: number;
  readonly text: readonly TemplatePart[] | undefined;
  readonly json: FilledJson | undefined;
  readonly headers: NamedTemplates;
  /** The challenge of which `{hmac}` is the HMAC. */
  readonly hmac: readonly TemplatePart[] | undefined;
  /** The address that is called before the answer. */
  readonly confirm: readonly TemplatePart[] | undefined;
}

export type NamedTemplates = readonly (readonly [name: string, parts: readonly TemplatePart[]])[];

/** Reads a handshake of any shape. What is wrong besides its templates is reported by `checkHandshake`. */
function readHandshake(given: Handshake, name: string, isSplit: boolean, report: Report): CheckedHandshake {
  const { method, verifyToken, unsigned, store, ...handshake } = objectOf(given) as Handshake;
  const answer = objectOf(handshake.answer) as Handshake["answer"];
  const isInHead = method !== "POST" || unsigned === true || (verifyToken !== undefined && store !== true);
  const inEvent = isSplit ? [...placeholdersInEvent, "item" as const] : placeholdersInEvent;
  const allowed = isInHead ? placeholdersInHead : inEvent;
  const inAnswer: readonly Placeholder[] = answer.hmac === undefined ? allowed : [...allowed, "hmac"];
  const one = (template: unknown, what: string, known = allowed) =>
    parseOne(template, known, `${name}.${what}`, report);
  const optional = (template: unknown, what: string, known = allowed) =>
    parseOptional(template, known, `${name}.${what}`, report);
  const when = Object.entries(objectOf(handshake.when)).map(([template, equals]) => ({
    parts: one(template, "when"),
    equals: equals === true ? undefined : (equals as string),
  }));
  return {
    ...{ method, isInHead, unsigned, store, when },
    isPerItem: when.some(({ parts }) => parts.some(({ placeholder }) => placeholder === "item")),
    verifyToken: optional(verifyToken, "verifyToken", placeholdersInHead),
    status: answer.status ?? 200,
    text: optional(answer.text, "answer.text", inAnswer),
    json:
      answer.json === undefined
        ? undefined
        : checkJson(answer.json, (text) => one(text, "answer.json", inAnswer)),
    headers: Object.entries(objectOf(answer.headers)).map(([header, value]) => [
      header,
      one(value, `answer.headers.${header}`, inAnswer),
    ]),
    hmac: optional(answer.hmac, "answer.hmac"),
    confirm: optional(answer.confirm, "answer.confirm"),
  };
}

/** A scheme with its templates parsed. */
export interface CheckedScheme extends CheckedProof {
  readonly scheme: WebhookScheme;
  readonly split: CheckedSplit | undefined;
  readonly messageId: Alternatives;
  readonly topic: Alternatives;
  readonly tenant: Alternatives;
  readonly handshakes: readonly CheckedHandshake[];
}

/** Fields by which a source overrides its scheme. */
export const overridableFields = [
  "split",
  "messageId",
  "topic",
  "tenant",
  "keepHeaders",
  "volatileFields",
  "contentTypes",
  "receiveMs",
] as const;
/** Adds what is wrong with a scheme to `problems`. */
export type ReadScheme = (given: unknown, problems: string[]) => CheckedScheme;

/**
 * Parses the templates of a scheme, and checks no more than those: enough for a preset, which the tests have checked.
 * `checkScheme` is for all others.
 */
export const readScheme: ReadScheme = (given, problems) => {
  const report = (problem: string): void => {
    problems.push(problem);
  };
  const scheme = objectOf(given) as unknown as WebhookScheme;
  const split = readSplit(scheme.split, report);
  const ofItem = split === undefined ? [] : (["item"] as const);
  const inId = [...placeholdersInEvent, ...placeholdersOfId, ...ofItem];
  return {
    scheme,
    split,
    ...readProof(scheme.verify, split !== undefined, report),
    messageId: parseAll(scheme.messageId, inId, "messageId", report),
    topic: parseAll(scheme.topic, [...placeholdersInEvent, ...ofItem], "topic", report),
    tenant: parseAll(scheme.tenant, [...placeholdersOfTenant, ...ofItem], "tenant", report),
    handshakes: asList(scheme.handshakes).map((one, index) =>
      readHandshake(one, `handshakes[${index}]`, split !== undefined, report),
    ),
  };
};

/** What proves a delivery, with its templates parsed. */
export interface CheckedProof {
  /** The templates of the signed content, or of the token. */
  readonly proof: Alternatives;
  /** Where the body has the signature. */
  readonly signatureIn?: readonly TemplatePart[] | undefined;
  readonly sender?: readonly TemplatePart[] | undefined;
  readonly certificateUrl?: readonly TemplatePart[] | undefined;
  readonly algorithmBy?: readonly TemplatePart[] | undefined;
  /** Of each item: values that are a claim of one of the tokens, and one that is a secret of the source. */
  readonly itemClaims?: readonly (readonly [claim: string, value: readonly TemplatePart[]])[];
  readonly itemSecret?: readonly TemplatePart[] | undefined;
}

function readProof(verify: VerifyRule | undefined, isSplit: boolean, report: Report): CheckedProof {
  const ofItem = isSplit ? (["item"] as const) : [];
  if (verify?.kind === "signature") return readSignature(verify, ofItem, report);
  if (verify?.kind === "jwt") return readJwt(verify, ofItem, report);
  return { proof: parseAll(verify?.token, [...placeholdersInHead, ...ofItem], "verify.token", report) };
}

function readJwt(rule: JwtRule, ofItem: readonly "item"[], report: Report): CheckedProof {
  const claims = Object.entries(objectOf(rule.itemClaims));
  return {
    proof: parseAll(rule.token, [...placeholdersInHead, "json"], "verify.token", report),
    itemClaims: claims.map(([claim, template]) => [
      claim,
      parseOne(template, ofItem, `verify.itemClaims.${claim}`, report),
    ]),
    itemSecret: parseOptional(rule.itemSecret, ofItem, "verify.itemSecret", report),
  };
}

function readSignature(rule: SignatureRule, ofItem: readonly "item"[], report: Report): CheckedProof {
  const inBody = [...placeholdersInSignedBody, ...ofItem];
  const anywhere = [...placeholdersInEvent, ...inBody];
  const mayUseBody = rule.signatureIn !== undefined;
  const allowed = mayUseBody ? [...placeholdersInSignedContent, ...inBody] : placeholdersInSignedContent;
  const one = (template: unknown, name: string) =>
    parseOptional(template, anywhere, `verify.${name}`, report);
  return {
    proof: parseAll(rule.signed ?? "{body}", allowed, "verify.signed", report),
    signatureIn: one(rule.signatureIn, "signatureIn"),
    sender: one(rule.sender, "sender"),
    certificateUrl: one(rule.certificate?.url, "certificate.url"),
    algorithmBy: one(rule.algorithmBy?.value, "algorithmBy.value"),
  };
}

type Fill = (parts: readonly TemplatePart[]) => string | undefined;

/** Returns the JSON with its templates filled in, or undefined when a value is missing. */
type FilledJson = (fill: Fill) => unknown;

/** Parses the templates of an answer. Numbers, booleans and null are sent as they are. */
function checkJson(
  template: JsonTemplate,
  parse: (template: unknown) => readonly TemplatePart[],
): FilledJson {
  if (typeof template === "string") {
    const parts = parse(template);
    return (fill) => fill(parts);
  }
  if (typeof template !== "object" || template === null) return () => template;
  const members = Object.entries(template).map(([name, value]) => [name, checkJson(value, parse)] as const);
  return (fill) => {
    const filled = members.map(([name, member]) => [name, member(fill)] as const);
    if (filled.some(([, value]) => value === undefined)) return undefined;
    return Array.isArray(template) ? filled.map(([, value]) => value) : Object.fromEntries(filled);
  };
}

/** The statuses of refused requests. */
export const refusalStatuses = {
  "bad request": 400,
  unauthorized: 401,
  "not found": 404,
  "method not allowed": 405,
  "too slow": 408,
  "too large": 413,
  "unsupported media type": 415,
  unavailable: 503,
} as const satisfies Record<RefusalName, number>;
