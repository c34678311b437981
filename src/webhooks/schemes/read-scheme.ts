import { type CheckedSplit, type JsonPlans, maxEvents, readSplit } from "./delivery.js";
import { asList, objectOf, type Report } from "./field-checks.js";
import { compilePlan } from "./json-scan.js";
import type { Handshake, JsonTemplate, JwtRule, SignatureRule, VerifyRule, WebhookScheme } from "./scheme.js";
import {
  type Alternatives,
  type ParsedTemplate,
  type Placeholder,
  parseTemplate,
  placeholdersInEvent,
  placeholdersInHead,
  placeholdersInSignedBody,
  placeholdersInSignedContent,
  placeholdersOfId,
  placeholdersOfTenant,
  type Templates,
} from "./template.js";

/** Adds what is wrong with a scheme to `problems`. */
export type ReadScheme = (given: unknown, problems: string[]) => CheckedScheme;

/** A scheme with its templates parsed. */
export interface CheckedScheme extends CheckedProof {
  readonly scheme: WebhookScheme;
  readonly split: CheckedSplit | undefined;
  readonly messageId: Alternatives;
  readonly topic: Alternatives;
  readonly partitionKey: Alternatives;
  readonly tenant: Alternatives;
  readonly handshakes: readonly CheckedHandshake[];
  /** What the templates read of a body. */
  readonly plans: JsonPlans;
}

/** Fields by which a source overrides its scheme. */
export const overridableFields = [
  "split",
  "messageId",
  "topic",
  "partitionKey",
  "tenant",
  "keepHeaders",
  "volatileFields",
  "contentTypes",
  "receiveMs",
] as const;

/**
 * Parses the templates of a scheme, and checks no more than those: enough for a preset, which the tests have checked.
 * `checkScheme` is for all others.
 */
export const readScheme: ReadScheme = (given, problems) => {
  const report = (problem: string): void => {
    problems.push(problem);
  };
  const scheme = objectOf(given) as unknown as WebhookScheme;
  const parser = new TemplateParser(report);
  const split = readSplit(scheme.split, report);
  const item: Placeholders = split === undefined ? [] : ["item"];
  const inEvent = [...placeholdersInEvent, ...item];
  const read = {
    scheme,
    split,
    ...readProof(scheme.verify, item, parser),
    messageId: parser.all(scheme.messageId, [...inEvent, ...placeholdersOfId], "messageId"),
    topic: parser.all(scheme.topic, inEvent, "topic"),
    partitionKey: parser.all(scheme.partitionKey, inEvent, "partitionKey"),
    tenant: parser.all(scheme.tenant, [...placeholdersOfTenant, ...item], "tenant"),
    handshakes: asList(scheme.handshakes).map((one, index) =>
      readHandshake(one, `handshakes[${index}]`, inEvent, parser),
    ),
  };
  return { ...read, plans: plansOf(scheme, split, parser) };
};

function plansOf(scheme: WebhookScheme, split: CheckedSplit | undefined, parser: TemplateParser): JsonPlans {
  const { timestamp } = objectOf(scheme.verify) as Partial<SignatureRule>;
  const time = (objectOf(timestamp) as { readonly json?: unknown }).json;
  const fields = asList(scheme.volatileFields).map(String);
  const item = compilePlan({ paths: parser.paths.item, fields });
  const list = { list: split?.path, item, maxItems: maxEvents };
  const times = time === undefined ? [] : [String(time)];
  // a delivery without the list is one event
  const paths = [...parser.paths.json, ...parser.paths.item, ...times];
  const isInForm = split?.field !== undefined;
  return {
    whole: compilePlan({ paths, fields, ...(isInForm ? {} : list) }),
    field: compilePlan({ paths: [], ...list }),
    item,
  };
}

/** What proves a delivery, with its templates parsed. */
export interface CheckedProof {
  /** The templates of the signed content, or of the token. */
  readonly proof: Alternatives;
  /** Where the body has the signature. */
  readonly signatureIn?: ParsedTemplate | undefined;
  readonly sender?: ParsedTemplate | undefined;
  readonly certificateUrl?: ParsedTemplate | undefined;
  readonly algorithmBy?: ParsedTemplate | undefined;
  /** Of each item: values that are a claim of one of the tokens, and one that is a secret of the source. */
  readonly itemClaims?: NamedTemplates;
  readonly itemSecret?: ParsedTemplate | undefined;
}

export type NamedTemplates = readonly (readonly [name: string, parts: ParsedTemplate])[];

function readProof(verify: VerifyRule | undefined, item: Placeholders, parser: TemplateParser): CheckedProof {
  if (verify?.kind === "signature") return readSignature(verify, item, parser);
  if (verify?.kind === "jwt") return readJwt(verify, item, parser);
  return { proof: parser.all(verify?.token, [...placeholdersInHead, ...item], "verify.token") };
}

function readJwt(rule: JwtRule, item: Placeholders, parser: TemplateParser): CheckedProof {
  const claims = Object.entries(objectOf(rule.itemClaims));
  return {
    proof: parser.all(rule.token, [...placeholdersInHead, "json"], "verify.token"),
    itemClaims: claims.map(([claim, template]) => [
      claim,
      parser.one(template, item, `verify.itemClaims.${claim}`),
    ]),
    itemSecret: parser.optional(rule.itemSecret, item, "verify.itemSecret"),
  };
}

function readSignature(rule: SignatureRule, item: Placeholders, parser: TemplateParser): CheckedProof {
  const inBody = [...placeholdersInSignedBody, ...item];
  const anywhere = [...placeholdersInEvent, ...inBody];
  const inSigned = [...placeholdersInSignedContent, ...(rule.signatureIn === undefined ? [] : inBody)];
  const one = (template: unknown, name: string) => parser.optional(template, anywhere, `verify.${name}`);
  return {
    proof: parser.all(rule.signed ?? "{body}", inSigned, "verify.signed"),
    signatureIn: one(rule.signatureIn, "signatureIn"),
    sender: one(rule.sender, "sender"),
    certificateUrl: one(rule.certificate?.url, "certificate.url"),
    algorithmBy: one(rule.algorithmBy?.value, "algorithmBy.value"),
  };
}

export interface CheckedHandshake extends Pick<Handshake, "method"> {
  /** Whether it uses only headers and query, so that it is recognised before the body is read. */
  readonly isInHead: boolean;
  /** Whether it is one event of several: the others are stored. */
  readonly isPerItem: boolean;
  readonly store: true | undefined;
  readonly when: readonly { readonly parts: ParsedTemplate; readonly equals: string | undefined }[];
  readonly verifyToken: ParsedTemplate | undefined;
  readonly unsigned: true | undefined;
  readonly status: number;
  readonly text: ParsedTemplate | undefined;
  readonly json: FilledJson | undefined;
  readonly headers: NamedTemplates;
  /** The challenge of which `{hmac}` is the HMAC. */
  readonly hmac: ParsedTemplate | undefined;
  /** The address that is called before the answer. */
  readonly confirm: ParsedTemplate | undefined;
}

/** Reads a handshake of any shape. What is wrong besides its templates is reported by `checkHandshake`. */
function readHandshake(
  given: Handshake,
  name: string,
  inEvent: Placeholders,
  parser: TemplateParser,
): CheckedHandshake {
  const { method, verifyToken, unsigned, store, ...handshake } = objectOf(given) as Handshake;
  const answer = objectOf(handshake.answer) as Handshake["answer"];
  const isInHead = method !== "POST" || unsigned === true || (verifyToken !== undefined && store !== true);
  const allowed = isInHead ? placeholdersInHead : inEvent;
  const inAnswer: Placeholders = answer.hmac === undefined ? allowed : [...allowed, "hmac"];
  const one = (template: unknown, what: string, known = allowed) =>
    parser.one(template, known, `${name}.${what}`);
  const optional = (template: unknown, what: string, known = allowed) =>
    parser.optional(template, known, `${name}.${what}`);
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
        : parseJsonTemplate(answer.json, (text) => one(text, "answer.json", inAnswer)),
    headers: Object.entries(objectOf(answer.headers)).map(([header, value]) => [
      header,
      one(value, `answer.headers.${header}`, inAnswer),
    ]),
    hmac: optional(answer.hmac, "answer.hmac"),
    confirm: optional(answer.confirm, "answer.confirm"),
  };
}

/** Returns the JSON with its templates filled in, or undefined when a value is missing. */
type FilledJson = (fill: (parts: ParsedTemplate) => string | undefined) => unknown;

/** Parses the templates of an answer. Numbers, booleans and null are sent as they are. */
function parseJsonTemplate(template: JsonTemplate, parse: (template: unknown) => ParsedTemplate): FilledJson {
  if (typeof template === "string") {
    const parts = parse(template);
    return (fill) => fill(parts);
  }
  if (typeof template !== "object" || template === null) return () => template;
  const members = Object.entries(template).map(
    ([name, value]) => [name, parseJsonTemplate(value, parse)] as const,
  );
  return (fill) => {
    const filled = members.map(([name, member]) => [name, member(fill)] as const);
    if (filled.some(([, value]) => value === undefined)) return undefined;
    return Array.isArray(template) ? filled.map(([, value]) => value) : Object.fromEntries(filled);
  };
}

type Placeholders = readonly Placeholder[];

/** Parses templates, and reports what is wrong with them. */
class TemplateParser {
  readonly #report: Report;
  /** Of all templates. */
  readonly paths = { json: new Set<string>(), item: new Set<string>() };

  constructor(report: Report) {
    this.#report = report;
  }

  all(templates: Templates | undefined, allowed: Placeholders, name: string): Alternatives {
    const parsed = asList(templates).map((template) => this.one(template, allowed, name));
    return parsed.filter((parts) => parts.length > 0);
  }

  optional(template: unknown, allowed: Placeholders, name: string): ParsedTemplate | undefined {
    return template === undefined ? undefined : this.one(template, allowed, name);
  }

  /** Reports a template that is absent or wrong, and returns no parts then. */
  one(template: unknown, allowed: Placeholders, name: string): ParsedTemplate {
    const parts = parseTemplate(template, allowed);
    if (typeof parts !== "string") {
      for (const { placeholder, text } of parts)
        if (placeholder === "json" || placeholder === "item") this.paths[placeholder].add(text);
      return parts;
    }
    this.#report(`${name} ${parts}`);
    return [];
  }
}
