import {
  type Envelope,
  type EnvelopeFields,
  type FieldProblem,
  fieldProblem,
  isProtocolHeader,
  type MessageType,
  mostHeaders,
  timestampMs,
  wireLimits,
} from "./envelope.js";
import { parseJson, type ScanProblem, scanMembers, valueProblem } from "./payload-json.js";
import { isSignature, signedBytes } from "./sign-envelope.js";

/** Why an envelope is not accepted. It is logged and never sent to the caller. */
type EnvelopeRefusal = "unknown source" | "signature wrong" | "timestamp too old" | "timestamp too new";

interface OpenFieldsOptions {
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

interface RefusedEnvelope {
  readonly kind: "refused";
  readonly reason: EnvelopeRefusal;
  /** Not verified: what the message claims. */
  readonly messageId: string;
  readonly sourceServiceId: string;
}

const openDefaults = { toleranceMs: 5 * 60_000, maxBytes: 1_048_576 } as const;

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

/** Why a body is no envelope. It quotes nothing of the body. */
type MalformedReason = FieldProblem | ScanProblem | "too large" | "not UTF-8" | "member missing";

type ParsedEnvelope =
  | { readonly kind: "envelope"; readonly fields: EnvelopeFields }
  | { readonly kind: "malformed"; readonly reason: MalformedReason };

const memberNames = [
  "messageId",
  "correlationId",
  "sourceServiceId",
  "messageType",
  "endpoint",
  "payload",
  "headers",
] as const;

/**
 * Reads the fields of an envelope in JSON. The payload is only cut out: its text is what was signed, and it is parsed when
 * its signature is verified.
 */
export function parseEnvelope(body: Uint8Array, maxBytes: number): ParsedEnvelope {
  if (body.byteLength > maxBytes) return malformed("too large");
  const text = decode(body);
  if (text === undefined) return malformed("not UTF-8");
  const members = scanMembers(text, {
    isKnown: (name) => (memberNames as readonly string[]).includes(name),
    maxDepth: wireLimits.depth,
    mostMembers: memberNames.length,
  });
  if (typeof members === "string") return malformed(members);
  if (members.size < memberNames.length) return malformed("member missing");
  const headers = parseHeaders(members.get("headers")!);
  if (typeof headers === "string") return malformed(headers);
  const parsed = (name: (typeof memberNames)[number]) => parseJson(members.get(name)!);
  const fields: EnvelopeFields = {
    messageId: parsed("messageId") as string,
    correlationId: parsed("correlationId") as string | null,
    sourceServiceId: parsed("sourceServiceId") as string,
    messageType: parsed("messageType") as MessageType,
    endpoint: parsed("endpoint") as string,
    payloadText: members.get("payload")!,
    headers,
  };
  const problem = fieldProblem(fields); // which checks the types that are asserted above
  return problem === undefined ? { kind: "envelope", fields } : malformed(problem);
}

const malformed = (reason: MalformedReason) => ({ kind: "malformed", reason }) as const;

/** A byte order mark stays, so that it is refused. */
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function decode(body: Uint8Array): string | undefined {
  try {
    return decoder.decode(body);
  } catch {
    return undefined;
  }
}

/** Scanned as well, because `JSON.parse` would hide a header that is there twice. */
function parseHeaders(text: string): Readonly<Record<string, string>> | MalformedReason {
  const members = scanMembers(text, { isKnown: () => true, maxDepth: 1, mostMembers: mostHeaders });
  if (members === "too many members") return "too many headers";
  if (typeof members === "string") return members;
  return Object.fromEntries([...members].map(([name, value]) => [name, parseJson(value) as string]));
}
