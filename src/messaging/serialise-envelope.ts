import type { EnvelopeFields } from "./envelope-fields.js";

/** As long as what the protocol and this package add to a message's own headers. */
const addedHeaders = {
  "rf-version": "2.0",
  "rf-timestamp": "2026-02-14T12:00:00.000Z",
  "rf-hmac": "x".repeat(44),
  "rf-reply-with": "acknowledgement",
};

/** The bytes of a body beside its payload. */
export const bytesBesidePayload = (fields: Omit<EnvelopeFields, "messageId" | "payloadText">): number => {
  const headers = { ...fields.headers, ...addedHeaders };
  return Buffer.byteLength(
    serialiseEnvelope({ ...fields, headers, messageId: "x".repeat(36), payloadText: "" }),
  );
};

/** Returns the body in JSON. The payload stands in it exactly as it was signed. */
export function serialiseEnvelope({ payloadText, headers, ...fields }: EnvelopeFields): string {
  const { messageId, correlationId, sourceServiceId, messageType, endpoint } = fields;
  const head = JSON.stringify({ messageId, correlationId, sourceServiceId, messageType, endpoint });
  return `${head.slice(0, -1)},"payload":${payloadText},"headers":${JSON.stringify(headers)}}`;
}
