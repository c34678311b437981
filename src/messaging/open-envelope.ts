import { writeCanonical } from "./canonical-json.js";
import {
  type Envelope,
  fieldProblem,
  isProtocolHeader,
  type SignedEnvelope,
  timestampMs,
} from "./envelope.js";
import { isSignature, signedBytes } from "./sign-envelope.js";

/** Why an envelope is not accepted. It is logged and never sent to the caller. */
type EnvelopeRefusal =
  | "unknown source"
  | "signature wrong"
  | "timestamp too old"
  | "timestamp too new"
  | "endpoint not allowed";

/** How an envelope is opened. */
export interface OpenOptions {
  /** The id of the service that received the message. */
  readonly serviceId: string;
  /** Returns the secrets of a source, each of which is valid, or undefined for a source that may not send. */
  secretsOf(source: string): readonly string[] | undefined;
  /** Whether a source whose signature is right may send this message. It may by default. */
  mayCall?(message: Pick<Envelope, "sourceServiceId" | "endpoint" | "messageType">): boolean;
  readonly now: Date;
  /** How far the message's timestamp may be from now, before or after. 5 minutes by default. */
  readonly toleranceMs?: number;
  /** 1 MiB by default. */
  readonly maxBytes?: number;
}

/** An envelope whose signature was verified. */
export type OpenedEnvelope =
  | { readonly kind: "opened"; readonly envelope: Envelope }
  /** 400; or 413 when the reason is "too large". */
  | Malformed
  /** 401, without the reason. */
  | {
      readonly kind: "refused";
      readonly reason: EnvelopeRefusal;
      /** Not verified: what the message claims. */
      readonly messageId: string;
      readonly sourceServiceId: string;
      readonly endpoint: string;
    };

const openDefaults = { toleranceMs: 5 * 60_000, maxBytes: 1_048_576 } as const;

/** Parses a body and verifies its signature. */
export function openEnvelope(body: Uint8Array, options: OpenOptions): OpenedEnvelope {
  const parsed = parseEnvelope(body, options.maxBytes ?? openDefaults.maxBytes);
  if (parsed.kind === "malformed") return parsed;
  const { payloadText, ...fields } = parsed.fields;
  const reason = refusalOf(parsed.fields, options);
  const { messageId, sourceServiceId, endpoint } = fields;
  if (reason !== undefined) return { kind: "refused", reason, messageId, sourceServiceId, endpoint };
  const others = Object.entries(fields.headers).filter(([name]) => !isProtocolHeader(name));
  // From the text that was signed: whatever the body says twice or as -0, the handler gets what the sender signed.
  const payload = JSON.parse(payloadText) as unknown;
  return { kind: "opened", envelope: { ...fields, payload, headers: Object.fromEntries(others) } };
}

function refusalOf(fields: SignedEnvelope, options: OpenOptions): EnvelopeRefusal | undefined {
  const { serviceId, secretsOf, now, toleranceMs = openDefaults.toleranceMs } = options;
  const { sourceServiceId, headers } = fields;
  const age = now.getTime() - timestampMs(headers["rf-timestamp"])!;
  // NaN, of a clock that is wrong, is outside of the tolerance
  if (!(age <= toleranceMs)) return "timestamp too old";
  if (!(age >= -toleranceMs)) return "timestamp too new";
  // before the source is looked up, so that the time taken does not show which sources are known
  const bytes = signedBytes(fields, serviceId);
  const secrets = secretsOf(sourceServiceId) ?? [];
  if (secrets.length === 0) return "unknown source";
  if (!isSignature(headers["rf-hmac"]!, bytes, secrets, sourceServiceId)) return "signature wrong";
  return (options.mayCall?.(fields) ?? true) ? undefined : "endpoint not allowed";
}

/** The reason says why a body is no envelope. It quotes nothing of the body. */
interface Malformed {
  readonly kind: "malformed";
  readonly reason: string;
}

const malformed = (reason: string): Malformed => ({ kind: "malformed", reason });

const memberNames: readonly string[] = [
  "messageId",
  "correlationId",
  "sourceServiceId",
  "messageType",
  "endpoint",
  "payload",
  "headers",
];

/** Reads an envelope in JSON. A member that is there twice has the value of the last one, which is the one verified. */
export function parseEnvelope(
  body: Uint8Array,
  maxBytes: number,
): Malformed | { readonly kind: "envelope"; readonly fields: SignedEnvelope } {
  if (body.byteLength > maxBytes) return malformed("too large");
  const text = attempt(() => decoder.decode(body));
  if (text === undefined) return malformed("not UTF-8");
  const parsed = attempt(() => JSON.parse(text) as unknown);
  if (parsed === undefined) return malformed("not JSON");
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed))
    return malformed("not a JSON object");
  const names = Object.keys(parsed);
  if (names.some((name) => !memberNames.includes(name))) return malformed("unknown member");
  if (names.length < memberNames.length) return malformed("member missing");
  const { payload, ...fields } = parsed as Envelope; // whose types fieldProblem checks
  const problem = fieldProblem(fields);
  if (problem !== undefined) return malformed(problem);
  const written = writeCanonical(payload);
  if ("problem" in written) return malformed(`payload ${written.problem}`);
  return { kind: "envelope", fields: { ...fields, payloadText: written.text } };
}

/** A byte order mark stays, so that it is refused. */
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Returns undefined when `parse` throws: its error would quote what it parses. */
export function attempt<T>(parse: () => T): T | undefined {
  try {
    return parse();
  } catch {
    return undefined;
  }
}
