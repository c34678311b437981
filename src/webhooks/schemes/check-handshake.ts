import { checkOneOf, isHeaderName, isObject, isText, type Report, refuseFields } from "./field-checks.js";
import { checkJson, type FilledJson } from "./filled-json.js";
import type { Handshake } from "./scheme.js";
import {
  type Placeholder,
  parseTemplate,
  placeholdersInEvent,
  placeholdersInHead,
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

export function checkHandshake(
  given: Handshake,
  name: string,
  isSplit: boolean,
  report: Report,
): CheckedHandshake {
  const handshake = (isObject(given) ? given : {}) as Handshake;
  const { method, verifyToken, unsigned, store } = handshake;
  const wrong = (problem: string) => report(`${name}.${problem}`);
  const object = (value: unknown, what: string): object => {
    if (!isObject(value)) wrong(`${what} must be an object`);
    return isObject(value) ? value : {};
  };
  refuseFields(handshake, ["method", "when", "verifyToken", "unsigned", "store", "answer"], name, report);
  checkOneOf(method ?? "", ["GET", "HEAD", "POST", "OPTIONS"], `${name}.method`, report);
  const when = Object.entries(object(handshake.when, "when"));
  if (method === "POST" && when.length === 0)
    wrong("when is empty: every event would be answered as a handshake, and none stored");
  if (unsigned !== undefined && !(unsigned === true && verifyToken === undefined))
    wrong("unsigned must be true, and without a verifyToken");
  if (store !== undefined && !(store === true && method === "POST" && verifyToken !== undefined))
    wrong("store must be true, and for a POST with a verifyToken: nothing unproven is stored");
  const answer = object(handshake.answer, "answer") as Handshake["answer"];
  refuseFields(answer, ["status", "text", "json", "headers", "hmac", "confirm"], `${name}.answer`, report);
  if (answer.text !== undefined && answer.json !== undefined)
    wrong("answer has text and json; give one of them");
  const { status = 200 } = answer;
  if (!(Number.isInteger(status) && status >= 200 && status <= 299))
    wrong("answer.status must be from 200 to 299");

  const isInHead = method !== "POST" || unsigned === true || (verifyToken !== undefined && store !== true);
  const inEvent = isSplit ? [...placeholdersInEvent, "item" as const] : placeholdersInEvent;
  const allowed = isInHead ? placeholdersInHead : inEvent;
  const inAnswer: readonly Placeholder[] = answer.hmac === undefined ? allowed : [...allowed, "hmac"];
  const one = (template: unknown, what: string, known = allowed) => {
    const parts = parseTemplate(template, known);
    if (typeof parts === "string") wrong(`${what} ${parts}`);
    return typeof parts === "string" ? [] : parts;
  };
  const optional = (template: unknown, what: string, known = allowed) =>
    template === undefined ? undefined : one(template, what, known);
  const all = (templates: unknown, what: string): NamedTemplates =>
    Object.entries(object(templates, what)).map(([key, value]) => [
      key,
      one(value, `${what}.${key}`, inAnswer),
    ]);
  const headers = all(answer.headers ?? {}, "answer.headers");
  for (const [header] of headers)
    if (!isHeaderName(header)) wrong(`answer.headers: ${header} is not a header name`);
  const conditions = when.map(([template, equals]) => {
    if (equals !== true && !isText(equals))
      wrong(`when: ${template} must be a string, or true for any value`);
    return { parts: one(template, "when"), equals: equals === true ? undefined : equals };
  });
  return {
    method,
    isInHead,
    isPerItem: conditions.some(({ parts }) => parts.some(({ placeholder }) => placeholder === "item")),
    store,
    when: conditions,
    verifyToken: optional(verifyToken, "verifyToken", placeholdersInHead),
    unsigned,
    status,
    text: optional(answer.text, "answer.text", inAnswer),
    json:
      answer.json === undefined
        ? undefined
        : checkJson(answer.json, (text) => one(text, "answer.json", inAnswer)),
    headers,
    hmac: optional(answer.hmac, "answer.hmac"),
    confirm: optional(answer.confirm, "answer.confirm"),
  };
}
