import type { Delivery } from "../delivery.js";
import { type Answer, isHeaderValue } from "../http.js";
import { jsonAnswer, textAnswer } from "../responses.js";
import type { ResolvedHandshake, ResolvedSource } from "../sources.js";
import type { NamedTemplates } from "./check-handshake.js";
import { fill, type TemplatePart } from "./template.js";

/** The handshake that the delivery says it is, among those in the head or among the others. */
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

/** undefined when the delivery lacks something of it, or has what cannot be said. */
export async function answerHandshake(
  handshake: ResolvedHandshake,
  delivery: Delivery,
): Promise<Answer | undefined> {
  const challenge = handshake.hmac && fill(handshake.hmac, delivery);
  const hmac = challenge && (await handshake.signChallenge?.(challenge));
  const filled = (parts: readonly TemplatePart[]) =>
    fill(
      parts.map((part) => (part.place === "hmac" ? { text: hmac ?? "" } : part)),
      delivery,
    );
  const headers = fillAll(handshake.headers, filled);
  const json = fillAll(handshake.json ?? [], filled);
  const text = handshake.text === undefined ? "" : filled(handshake.text);
  if (headers === undefined || json === undefined || text === undefined) return undefined;
  if (!Object.values(headers).every(isHeaderValue)) return undefined;
  return handshake.json === undefined ? textAnswer(text, headers) : jsonAnswer(200, json, headers);
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
