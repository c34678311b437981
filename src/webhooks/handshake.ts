import type { PlainResponse } from "../base/plain-http.js";
import { jsonResponse, textResponse } from "./responses.js";
import type { NamedTemplates } from "./schemes/check-handshake.js";
import type { Delivery } from "./schemes/delivery.js";
import { isHeaderValue } from "./schemes/field-checks.js";
import { fill, type TemplatePart } from "./schemes/template.js";
import type { ResolvedHandshake, ResolvedSource } from "./sources.js";

/** Returns the handshake that the delivery matches: one of those in the head, or one of those with a verified body. */
export const findHandshake = (
  { handshakes }: ResolvedSource,
  delivery: Delivery,
  isInHead: boolean,
): ResolvedHandshake | undefined =>
  handshakes.find(
    (one) =>
      one.isInHead === isInHead &&
      one.method === delivery.method &&
      one.when.every(({ parts, equals }) => {
        const text = fill(parts, delivery);
        return equals === undefined ? text !== undefined : text === equals;
      }),
  );

/** Returns undefined when the delivery lacks a value of the answer, or has one that is not allowed in a header. */
export async function answerHandshake(
  handshake: ResolvedHandshake,
  delivery: Delivery,
): Promise<PlainResponse | undefined> {
  const challenge = handshake.hmac && fill(handshake.hmac, delivery);
  const hmac = challenge && (await handshake.signChallenge?.(challenge));
  const filled = (parts: readonly TemplatePart[]) =>
    fill(
      parts.map((part) => (part.placeholder === "hmac" ? { text: hmac ?? "" } : part)),
      delivery,
    );
  const headers = fillAll(handshake.headers, filled);
  const json = fillAll(handshake.json ?? [], filled);
  const text = handshake.text === undefined ? "" : filled(handshake.text);
  if (headers === undefined || json === undefined || text === undefined) return undefined;
  if (!Object.values(headers).every(isHeaderValue)) return undefined;
  return handshake.json === undefined ? textResponse(text, headers) : jsonResponse(200, json, headers);
}

function fillAll(
  templates: NamedTemplates,
  filled: (parts: readonly TemplatePart[]) => string | undefined,
): Record<string, string> | undefined {
  const all: Record<string, string> = {};
  for (const [name, parts] of templates) {
    const value = filled(parts);
    if (value === undefined) return undefined;
    all[name] = value;
  }
  return all;
}
