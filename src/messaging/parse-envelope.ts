import type { MessageType } from "./envelope.js";
import {
  type EnvelopeFields,
  type FieldProblem,
  fieldProblem,
  mostHeaders,
  wireLimits,
} from "./envelope-fields.js";
import { parseJson, type ScanProblem, scanMembers } from "./scan-json.js";

/** Why a body is no envelope. It quotes nothing of the body. */
export type MalformedReason = FieldProblem | ScanProblem | "too large" | "not UTF-8" | "member missing";

export type ParsedEnvelope =
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

export const malformed = (reason: MalformedReason) => ({ kind: "malformed", reason }) as const;

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
