import type { Envelope, SignedEnvelope } from "../../../src/messaging/envelope.js";
import { type OpenOptions, parseEnvelope } from "../../../src/messaging/open-envelope.js";
import { readDocument } from "../../support/markdown.js";

export interface AcceptedVector {
  readonly name: string;
  readonly body: string;
  readonly canonicalPayload: string;
  readonly signedBytesSha256: string;
  readonly hmac: string;
}

export interface RejectedVector {
  readonly name: string;
  readonly outcome: "malformed" | "refused";
  readonly reason: string;
  readonly body?: string;
  readonly bodyBase64?: string;
}

interface Vectors {
  readonly version: string;
  readonly receiver: {
    readonly serviceId: string;
    readonly now: string;
    readonly toleranceMs: number;
    readonly sources: Readonly<Record<string, readonly string[]>>;
  };
  readonly accepted: readonly AcceptedVector[];
  readonly rejected: readonly RejectedVector[];
}

export const vectors = JSON.parse(readDocument("docs/messaging-protocol-vectors.json")) as Vectors;

const { receiver } = vectors;
const sources = new Map(Object.entries(receiver.sources));

export const now = new Date(receiver.now);
export const secret = receiver.sources.orders![0]!;

/** How the receiver of the vectors opens a body. */
export const opening: OpenOptions = {
  serviceId: receiver.serviceId,
  secretsOf: (source) => sources.get(source),
  now,
  toleranceMs: receiver.toleranceMs,
};

/** How a sender signs for that receiver. */
export const signing = { destination: receiver.serviceId, secrets: [secret], now } as const;

export const order: Envelope = {
  messageId: "a1b2c3d4-e5f6-7890-abcd-ef1234567890",
  correlationId: null,
  sourceServiceId: "orders",
  messageType: "Signal",
  endpoint: "OrderApproved",
  payload: { orderId: "A-17", quantity: 3 },
  headers: {},
};

export const bytesOf = ({ body, bodyBase64 }: Pick<RejectedVector, "body" | "bodyBase64">): Buffer =>
  bodyBase64 === undefined ? Buffer.from(body!) : Buffer.from(bodyBase64, "base64");

/** The fields of a body that is known to be well-formed. */
export function fieldsOf(body: Uint8Array | string): SignedEnvelope {
  const parsed = parseEnvelope(Buffer.from(body), 1_048_576);
  if (parsed.kind !== "envelope") throw new Error(parsed.reason);
  return parsed.fields;
}
