import { jsonText } from "../../base/json-text.js";
import { withoutPayload } from "../../base/redact.js";
import type { Envelope } from "../envelope.js";
import type { TransportResponse } from "../transport.js";
import { TransportError } from "./transport-error.js";

/** Characters of a receiver's error that are kept. */
const longestError = 500;

const refusals: Readonly<Record<number, { readonly why: string; readonly permanent: boolean }>> = {
  400: { why: "it is malformed for this receiver. A retry cannot help", permanent: true },
  401: {
    why: "compare the secrets and the clocks of both services, and the receiver's list of sources",
    permanent: false,
  },
  413: { why: "it is too large. A retry cannot help", permanent: true },
};

/** The response for a status that refuses the message, or undefined for any other status. */
export function refusalOf(status: number, receiver: string): TransportResponse | undefined {
  const refusal = refusals[status];
  if (refusal === undefined) return undefined;
  const { why, permanent } = refusal;
  const error = `${receiver} refused the message with status ${status}: ${why}.`;
  return { acknowledged: false, duplicateDetected: false, error, ...(permanent ? { permanent } : {}) };
}

/** Reads what a receiver returned by HTTP. Throws where it is no acknowledgement; then the message is sent again. */
export function readAcknowledgement(
  status: number,
  body: Uint8Array,
  receiver: string,
  message: Envelope,
): TransportResponse {
  const refusal = refusalOf(status, receiver);
  if (refusal !== undefined) return refusal;
  const parsed = status === 200 || status >= 500 ? parsedObject(body) : undefined;
  if (status === 200 && parsed === undefined) throw malformed(receiver);
  const isAnswer = parsed !== undefined && (status === 200 || parsed.acknowledged === false);
  if (isAnswer) return checkedResponse(parsed, receiver, message);
  const redirect = status >= 300 && status < 400 ? ", a redirect, which is not followed" : "";
  throw new TransportError(`${receiver} responded with status ${status}${redirect}.`);
}

/** Checks the members of an acknowledgement. An error's text is cut, and cleaned of what it quotes of the payload. */
export function checkedResponse(
  { acknowledged, duplicateDetected = false, payload, error, permanent }: Readonly<Record<string, unknown>>,
  receiver: string,
  message: Envelope,
): TransportResponse {
  if (typeof acknowledged !== "boolean" || typeof duplicateDetected !== "boolean") throw malformed(receiver);
  const response = { acknowledged, duplicateDetected, ...(payload === undefined ? {} : { payload }) };
  if (acknowledged) return response;
  const reason = typeof error === "string" && error !== "" ? error.slice(0, longestError) : "no reason given";
  const text = withoutPayload(reason, jsonText(message.payload));
  const refused = { ...response, error: `${receiver} did not process the message: ${text}` };
  // Anything but true, such as a value of a later version, means that the message is sent again: that loses nothing.
  return permanent === true ? { ...refused, permanent } : refused;
}

export const malformed = (receiver: string): TransportError =>
  new TransportError(`${receiver} returned something that is not an acknowledgement.`);

function parsedObject(body: Uint8Array): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Readonly<Record<string, unknown>>)
      : undefined;
  } catch {
    return undefined; // the parser's error would quote the response
  }
}
