import type { EnvelopeFields } from "./envelope-fields.js";

/** Returns the body in JSON. The payload stands in it exactly as it was signed. */
export function serialiseEnvelope({ payloadText, headers, ...fields }: EnvelopeFields): string {
  const { messageId, correlationId, sourceServiceId, messageType, endpoint } = fields;
  const head = JSON.stringify({ messageId, correlationId, sourceServiceId, messageType, endpoint });
  return `${head.slice(0, -1)},"payload":${payloadText},"headers":${JSON.stringify(headers)}}`;
}
