import { InvalidArgumentError } from "../errors.js";
import { type EnvelopeFields, protocolVersion } from "./envelope-fields.js";
import { serialiseEnvelope } from "./serialise-envelope.js";

/** A message id, a timestamp and a signature have these lengths, whatever they are. */
const messageId = "0".repeat(36);
const signed = {
  "rf-version": protocolVersion,
  "rf-timestamp": new Date(0).toISOString(),
  "rf-hmac": "0".repeat(44),
};

/** Refuses a message whose body a receiver with the same limit would refuse, before it is stored. */
export function requireSize(fields: Omit<EnvelopeFields, "messageId">, maxBodyBytes: number): void {
  const headers = { ...signed, ...fields.headers };
  const rest = serialiseEnvelope({ ...fields, messageId, headers, payloadText: "" });
  const bytes = Buffer.byteLength(rest) + Buffer.byteLength(fields.payloadText);
  if (bytes <= maxBodyBytes) return;
  throw new InvalidArgumentError(
    `The message "${fields.endpoint}" has ${bytes} bytes with its headers; at most ${maxBodyBytes} are sent (maxBodyBytes).`,
  );
}
