import type { AnyMessage } from "../queue/any-queue.js";

/** A message as the API shows it. Payload and values of headers may be personal data: they come on request alone. */
export function messageView(message: AnyMessage, withContent = false) {
  const { payload, headers, ...fields } = message;
  const hash =
    "hash" in fields && fields.hash !== null ? { hash: Buffer.from(fields.hash).toString("hex") } : {};
  return {
    ...fields,
    ...hash,
    payloadBytes: Buffer.byteLength(payload),
    headerNames: Object.keys(headers ?? {}),
    ...(withContent ? { payload, headers } : {}),
  };
}
