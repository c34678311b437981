import type { Envelope } from "./envelope.js";
import {
  type EnvelopeFields,
  fieldProblem,
  isProtocolHeader,
  timestampMs,
  wireLimits,
} from "./envelope-fields.js";
import { type MalformedReason, malformed, parseEnvelope } from "./parse-envelope.js";
import { parseJson, valueProblem } from "./scan-json.js";
import { isSignature, signedBytes } from "./signature.js";

/** Why an envelope is not accepted. It is logged and never sent to the caller. */
export type EnvelopeRefusal =
  | "unknown source"
  | "signature wrong"
  | "timestamp too old"
  | "timestamp too new";

export interface OpenFieldsOptions {
  /** The id of the service that received the message. */
  readonly serviceId: string;
  /** Returns the secrets of a source, each of which is valid, or undefined for a source that may not send. */
  secretsOf(source: string): readonly string[] | undefined;
  readonly now: Date;
  /** How far the message's timestamp may be from now, before or after. 5 minutes by default. */
  readonly toleranceMs?: number;
}

export interface OpenOptions extends OpenFieldsOptions {
  /** 1 MiB by default. */
  readonly maxBytes?: number;
}

export type OpenedEnvelope =
  | { readonly kind: "opened"; readonly envelope: Envelope; readonly payloadText: string }
  /** 400; or 413 when the reason is "too large". */
  | { readonly kind: "malformed"; readonly reason: MalformedReason }
  /** 401, without the reason. */
  | RefusedEnvelope;

export interface RefusedEnvelope {
  readonly kind: "refused";
  readonly reason: EnvelopeRefusal;
  /** Not verified: what the message claims. */
  readonly messageId: string;
  readonly sourceServiceId: string;
}

export const openDefaults = { toleranceMs: 5 * 60_000, maxBytes: 1_048_576 } as const;

/** Parses a body and verifies its signature. The payload is parsed last, when the sender is known. */
export function openEnvelope(body: Uint8Array, options: OpenOptions): OpenedEnvelope {
  const parsed = parseEnvelope(body, options.maxBytes ?? openDefaults.maxBytes);
  return parsed.kind === "envelope" ? verified(parsed.fields, options) : parsed;
}

/** Like openEnvelope, for transports that carry the fields apart. The transport limits their size. */
export function openFields(fields: EnvelopeFields, options: OpenFieldsOptions): OpenedEnvelope {
  const problem = fieldProblem(fields) ?? valueProblem(fields.payloadText, wireLimits.depth);
  return problem === undefined ? verified(fields, options) : malformed(problem);
}

function verified(fields: EnvelopeFields, options: OpenFieldsOptions): OpenedEnvelope {
  const reason = refusalOf(fields, options);
  const { messageId, correlationId, sourceServiceId, messageType, endpoint, payloadText } = fields;
  if (reason !== undefined) return { kind: "refused", reason, messageId, sourceServiceId };
  const payload = parseJson(payloadText);
  if (payload === undefined) return malformed("not JSON");
  const others = Object.entries(fields.headers).filter(([name]) => !isProtocolHeader(name));
  const headers = Object.fromEntries(others);
  const envelope = { messageId, correlationId, sourceServiceId, messageType, endpoint, payload, headers };
  return { kind: "opened", envelope, payloadText };
}

function refusalOf(fields: EnvelopeFields, options: OpenFieldsOptions): EnvelopeRefusal | undefined {
  const { serviceId, secretsOf, now, toleranceMs = openDefaults.toleranceMs } = options;
  const { sourceServiceId, headers } = fields;
  const age = now.getTime() - timestampMs(headers["rf-timestamp"])!;
  // NaN, of a clock that is wrong, is outside of the tolerance
  if (!(age <= toleranceMs)) return "timestamp too old";
  if (!(age >= -toleranceMs)) return "timestamp too new";
  // before the source is looked up, so that the time taken does not tell which sources are known
  const bytes = signedBytes(fields, serviceId);
  const secrets = secretsOf(sourceServiceId) ?? [];
  if (secrets.length === 0) return "unknown source";
  return isSignature(headers["rf-hmac"]!, bytes, secrets, sourceServiceId) ? undefined : "signature wrong";
}
