import { isObject, oneOf, type Report, refuseFields } from "./field-checks.js";
import type { Handshake } from "./scheme.js";
import { parseTemplate, placesInEvent, placesInHead, type TemplatePart } from "./template.js";

export interface CheckedHandshake {
  readonly method: Handshake["method"];
  readonly when: readonly { readonly parts: readonly TemplatePart[]; readonly equals: string | undefined }[];
  readonly verifyToken: readonly TemplatePart[] | undefined;
  readonly text: readonly TemplatePart[] | undefined;
  readonly json: NamedTemplates | undefined;
  readonly headers: NamedTemplates;
}

export type NamedTemplates = readonly (readonly [name: string, parts: readonly TemplatePart[]])[];

export function checkHandshake(given: Handshake, name: string, report: Report): CheckedHandshake {
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
      equals: equals === true ? undefined : String(equals),
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
