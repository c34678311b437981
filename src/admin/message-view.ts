import type { PhasedMessage } from "./list-phased.js";
import { keyText } from "./page/key-text.js";
import { isUnfinished } from "./phase.js";

/** A message as API and command line show it. Payload and values of headers may be personal data: they come on request alone. */
export function messageView({ message, phase }: PhasedMessage, withContent = false) {
  const { payload, headers, ...fields } = message;
  const hash =
    "hash" in fields && fields.hash !== null ? { hash: Buffer.from(fields.hash).toString("hex") } : {};
  return {
    key: keyText(message),
    phase,
    ...fields,
    ...hash,
    nextAttemptAt: isUnfinished(message) ? message.nextAttemptAt : null, // the row keeps the time of the last one
    payloadBytes: Buffer.byteLength(payload),
    headerNames: Object.keys(headers ?? {}),
    ...(withContent ? { payload, headers } : {}),
  };
}
