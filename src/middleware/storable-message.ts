import { createHash } from "node:crypto";
import { maxNameLength, optionalName, requireName } from "../queue/arguments.js";
import type { TriggerMessage } from "./trigger-message.js";

type DeadLetter = Pick<TriggerMessage, "messageId" | "topic" | "payload" | "headers" | "correlationId">;

/**
 * The message in a form that every database stores. An id that cannot be stored becomes its hash, so that a redelivery
 * has the same one. In other texts, what cannot be stored becomes U+FFFD. The headers then have the originals as JSON,
 * in which NUL and lone surrogates are escaped: `oncebox-original-message-id`, `-topic`, `-correlation-id`, `-payload`,
 * `-headers`.
 */
export function storableMessage(message: TriggerMessage): DeadLetter {
  const { messageId, topic, payload, headers, correlationId } = message;
  const originals: Record<string, string> = {};
  const stored = <Value>(field: string, value: Value, isStorable: boolean, replace: () => Value): Value => {
    if (isStorable) return value;
    originals[`oncebox-original-${field}`] = JSON.stringify(value) ?? "";
    return replace();
  };
  const fields = {
    messageId: stored("message-id", messageId, isName(messageId), () =>
      // without an id, equal messages are one dead letter
      hashOf(messageId === "" ? [topic, payload] : messageId),
    ),
    topic: stored("topic", topic, isName(topic), () => replaced(topic)),
    correlationId: stored("correlation-id", correlationId, isOptionalName(correlationId), () =>
      replaced(correlationId),
    ),
    payload: stored("payload", payload, payload.isWellFormed(), () => payload.toWellFormed()),
    headers: stored("headers", headers, isHeaders(headers), () => null),
  };
  return Object.keys(originals).length === 0
    ? fields
    : { ...fields, headers: { ...fields.headers, ...originals } };
}

const accepts = (check: () => unknown): boolean => {
  try {
    check();
    return true;
  } catch {
    return false;
  }
};
const isName = (value: unknown): boolean => accepts(() => requireName(value, "name"));
const isOptionalName = (value: unknown): boolean => accepts(() => optionalName(value, "name"));

/** An envelope of a Storage queue may hold any JSON. */
const isHeaders = (value: unknown): boolean =>
  value === null ||
  (typeof value === "object" && Object.values(value as object).every((one) => typeof one === "string"));

/** Of the JSON text: two ids that differ in a lone surrogate would be the same bytes in UTF-8. */
const hashOf = (value: unknown): string => createHash("sha256").update(JSON.stringify(value)).digest("hex");

/** As much of the text as a name may have. It never equals a name that was storable before. */
function replaced(value: unknown): string {
  const text = (typeof value === "string" ? value : JSON.stringify(value))
    .replaceAll("\0", "\uFFFD")
    .toWellFormed();
  return `${text
    .slice(0, maxNameLength - 1)
    .toWellFormed()
    .trimEnd()}\uFFFD`;
}
