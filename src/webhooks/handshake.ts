import { jsonAnswer, refusedAnswer, textAnswer } from "./answers.js";
import type { CheckedHandshake, NamedTemplates } from "./check-handshake.js";
import type { Delivery } from "./delivery.js";
import { type Answer, isHeaderValue } from "./http.js";
import type { ResolvedSource } from "./sources.js";
import { fill } from "./template.js";
import type { Verifier } from "./verifier.js";

export interface FoundHandshake {
  readonly handshake: CheckedHandshake;
  readonly verify: Verifier;
}

/** The handshake that the delivery says it is. */
export function findHandshake(source: ResolvedSource, delivery: Delivery): FoundHandshake | undefined {
  const index = source.handshakes.findIndex(
    ({ method, when }) => method === delivery.method && when.every((one) => isGiven(one, delivery)),
  );
  if (index < 0) return undefined;
  return { handshake: source.handshakes[index]!, verify: source.handshakeVerifiers[index]! };
}

function isGiven({ parts, equals }: CheckedHandshake["when"][number], delivery: Delivery): boolean {
  const text = fill(parts, delivery);
  return equals === undefined ? text !== undefined : text === equals;
}

export function answerHandshake(handshake: CheckedHandshake, delivery: Delivery): Answer {
  const headers = fillAll(handshake.headers, delivery);
  const json = fillAll(handshake.json ?? [], delivery);
  const text = handshake.text === undefined ? "" : fill(handshake.text, delivery);
  if (headers === undefined || json === undefined || text === undefined) return refusedAnswer("bad request");
  if (!Object.values(headers).every(isHeaderValue)) return refusedAnswer("bad request");
  return handshake.json === undefined ? textAnswer(text, headers) : jsonAnswer(200, json, headers);
}

/** undefined when the delivery lacks something of it. */
function fillAll(templates: NamedTemplates, delivery: Delivery): Record<string, string> | undefined {
  const filled: Record<string, string> = {};
  for (const [name, parts] of templates) {
    const value = fill(parts, delivery);
    if (value === undefined) return undefined;
    filled[name] = value;
  }
  return filled;
}
