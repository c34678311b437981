import { jsonResponse, type PlainResponse, textResponse } from "../http/plain.js";
import { refuse, type WebhookResult } from "./responses.js";
import { type Delivery, maxEvents } from "./schemes/delivery.js";
import { isHeaderValue } from "./schemes/field-checks.js";
import { fill, type ParsedTemplate } from "./schemes/template.js";
import type { ResolvedHandshake, ResolvedSource } from "./sources.js";

/** Returns the handshake that is recognised by the head of a request. */
export const findInHead = ({ handshakes }: ResolvedSource, head: Delivery): ResolvedHandshake | undefined =>
  handshakes.find((one) => one.isInHead && isMatch(one, head));

/** A handshake in a body, and the events of the delivery that are to be stored nevertheless. */
interface FoundHandshake {
  readonly handshake: ResolvedHandshake;
  /** What the answer is filled in from: the delivery, or one event of it. */
  readonly event: Delivery;
  readonly toStore: readonly Delivery[];
}

/** Whether one event of several may be a handshake. */
export const hasHandshakeEvents = ({ handshakes }: ResolvedSource): boolean =>
  handshakes.some(({ isPerItem, isInHead }) => isPerItem && !isInHead);

/**
 * Returns the handshake of a delivery that the scheme has proven.
 *
 * @param events of the delivery, where one of them may be it
 */
export function findInProven(
  source: ResolvedSource,
  delivery: Delivery,
  events: readonly Delivery[] = [],
): FoundHandshake | undefined {
  const inBody = source.handshakes.filter((one) => !one.isInHead && one.verifyToken === undefined);
  const whole = inBody.find((one) => !one.isPerItem && isMatch(one, delivery));
  if (whole !== undefined) return { handshake: whole, event: delivery, toStore: [] };
  const perItem = inBody.filter((one) => one.isPerItem);
  if (events.length > maxEvents) return undefined; // it is refused as a whole
  for (const handshake of perItem) {
    const event = events.find((one) => isMatch(handshake, one));
    if (event !== undefined)
      return { handshake, event, toStore: events.filter((one) => !isMatch(handshake, one)) };
  }
  return undefined;
}

/** Returns the handshake that a token in the head proves and whose body is stored. The body is read only after that. */
export async function findWithToken(
  { handshakes }: ResolvedSource,
  delivery: Delivery,
): Promise<FoundHandshake | undefined> {
  for (const handshake of handshakes) {
    if (!handshake.store || (await handshake.verify?.(delivery)) !== undefined) continue;
    if (isMatch(handshake, delivery)) return { handshake, event: delivery, toStore: [delivery] };
  }
  return undefined;
}

const isMatch = ({ method, when }: ResolvedHandshake, delivery: Delivery): boolean =>
  method === delivery.method &&
  when.every(({ parts, equals }) => {
    const text = fill(parts, delivery);
    return equals === undefined ? text !== undefined : text === equals;
  });

/** The caller has verified the delivery. */
export async function answerHandshake(
  handshake: ResolvedHandshake,
  delivery: Delivery,
): Promise<WebhookResult> {
  const response = await handshakeResponse(handshake, delivery);
  if (response === undefined)
    return refuse("bad request", "the handshake lacks a value that its answer needs");
  const address = handshake.confirm && fill(handshake.confirm, delivery);
  const isConfirmed =
    handshake.confirm === undefined ||
    (address !== undefined && (await handshake.confirmAt(address, delivery)));
  if (!isConfirmed) return refuse("bad request", "the address to confirm is not the provider's");
  return { response, outcome: "handshake" };
}

/** Returns undefined when the delivery lacks a value of the answer, or has one that is not allowed in a header. */
async function handshakeResponse(
  handshake: ResolvedHandshake,
  delivery: Delivery,
): Promise<PlainResponse | undefined> {
  const challenge = handshake.hmac && fill(handshake.hmac, delivery);
  const hmac = challenge && (await handshake.signChallenge?.(challenge));
  const filled = (parts: ParsedTemplate) => fill(parts, delivery, { hmac: () => hmac });
  const headers: Record<string, string> = {};
  for (const [name, parts] of handshake.headers) {
    const value = filled(parts);
    if (value === undefined || !isHeaderValue(value)) return undefined;
    headers[name] = value;
  }
  if (handshake.json !== undefined) {
    const json = handshake.json(filled);
    return json === undefined ? undefined : jsonResponse(handshake.status, json, headers);
  }
  const text = filled(handshake.text ?? []);
  if (text === undefined) return undefined;
  return textResponse(handshake.status, text, { "content-type": "text/plain", ...headers });
}
