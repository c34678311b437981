import type { PlainResponse } from "../base/plain-http.js";
import { type Ending, refuse } from "./ending.js";
import { jsonResponse, textResponse } from "./responses.js";
import type { Delivery } from "./schemes/delivery.js";
import { isHeaderValue } from "./schemes/field-checks.js";
import type { NamedTemplates } from "./schemes/read-handshake.js";
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

/** The caller has verified the delivery. */
export async function endHandshake(handshake: ResolvedHandshake, delivery: Delivery): Promise<Ending> {
  const response = await answerHandshake(handshake, delivery);
  if (response === undefined)
    return refuse("bad request", "the handshake lacks a value that its answer needs");
  const address = handshake.confirm && fill(handshake.confirm, delivery);
  if (handshake.confirm !== undefined && !(await handshake.confirmAt(address)))
    return refuse("bad request", "the address to confirm is not the provider's");
  return { response, outcome: "handshake" };
}

/** Returns undefined when the delivery lacks a value of the answer, or has one that is not allowed in a header. */
async function answerHandshake(
  handshake: ResolvedHandshake,
  delivery: Delivery,
): Promise<PlainResponse | undefined> {
  const challenge = handshake.hmac && fill(handshake.hmac, delivery);
  const hmac = challenge && (await handshake.signChallenge?.(challenge));
  const filled = (parts: readonly TemplatePart[]) => fill(parts, delivery, { hmac: () => hmac });
  const headers = fillAll(handshake.headers, filled);
  if (headers === undefined || !Object.values(headers).every(isHeaderValue)) return undefined;
  if (handshake.json !== undefined) {
    const json = handshake.json(filled);
    return json === undefined ? undefined : jsonResponse(handshake.status, json, headers);
  }
  const text = handshake.text === undefined ? "" : filled(handshake.text);
  return text === undefined ? undefined : textResponse(handshake.status, text, headers);
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
