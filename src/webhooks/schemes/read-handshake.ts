import { isObject, type Report } from "./field-checks.js";
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

/** Reads a handshake of any shape. What is wrong besides its templates is reported by `checkHandshake`. */
export function readHandshake(
  given: Handshake,
  name: string,
  isSplit: boolean,
  report: Report,
): CheckedHandshake {
  const { method, verifyToken, unsigned, store, ...handshake } = objectOf(given) as Handshake;
  const answer = objectOf(handshake.answer) as Handshake["answer"];
  const isInHead = method !== "POST" || unsigned === true || (verifyToken !== undefined && store !== true);
  const inEvent = isSplit ? [...placeholdersInEvent, "item" as const] : placeholdersInEvent;
  const allowed = isInHead ? placeholdersInHead : inEvent;
  const inAnswer: readonly Placeholder[] = answer.hmac === undefined ? allowed : [...allowed, "hmac"];
  const one = (template: unknown, what: string, known = allowed) => {
    const parts = parseTemplate(template, known);
    if (typeof parts === "string") report(`${name}.${what} ${parts}`);
    return typeof parts === "string" ? [] : parts;
  };
  const optional = (template: unknown, what: string, known = allowed) =>
    template === undefined ? undefined : one(template, what, known);
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

const objectOf = (value: unknown): object => (isObject(value) ? value : {});
