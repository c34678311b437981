import { InvalidArgumentError } from "../errors.js";
import { requireName } from "../queue/arguments.js";
import type { Envelope } from "./envelope.js";
import {
  type EnvelopeFields,
  fieldProblem,
  isProtocolHeader,
  protocolVersion,
  wireLimits,
} from "./envelope-fields.js";
import { parseJson, valueProblem } from "./scan-json.js";
import { serialiseEnvelope } from "./serialise-envelope.js";
import { serialisePayload } from "./serialise-payload.js";
import { signatureOf, signedBytes } from "./signature.js";

export interface SignOptions {
  /** The id of the service that the message goes to. It is signed and not sent. */
  readonly destination: string;
  /** The first one signs. */
  readonly secrets: readonly string[];
  readonly now: Date;
}

/** Returns the body of a request. Refuses what a receiver would refuse as malformed. */
export function signEnvelope(envelope: Envelope, options: SignOptions): string {
  const { payload, ...fields } = envelope;
  return serialiseEnvelope(sign({ ...fields, payloadText: serialisePayload(payload) }, options));
}

/** Like signEnvelope, for transports that carry the fields apart. Returns the fields with the headers of the protocol. */
export function signFields(fields: EnvelopeFields, options: SignOptions): EnvelopeFields {
  const { payloadText } = fields;
  const problem = valueProblem(payloadText, wireLimits.depth);
  if (problem !== undefined || parseJson(payloadText) === undefined) {
    throw new InvalidArgumentError(`The payload's text cannot be sent: ${problem ?? "not JSON"}.`);
  }
  return sign(fields, options);
}

function sign(fields: EnvelopeFields, { destination, secrets, now }: SignOptions): EnvelopeFields {
  requireName(destination, "destination");
  const taken = Object.keys(fields.headers).filter(isProtocolHeader);
  if (taken.length > 0) {
    throw new InvalidArgumentError(`The protocol sets the headers ${taken.join(", ")}. Leave them out.`);
  }
  const headers = { "rf-version": protocolVersion, "rf-timestamp": now.toISOString(), "rf-hmac": "" };
  const unsigned = { ...fields, headers: { ...headers, ...fields.headers } };
  const problem = fieldProblem(unsigned);
  if (problem !== undefined) {
    throw new InvalidArgumentError(`The message cannot be sent: ${problem}. See docs/messaging-protocol.md.`);
  }
  const hmac = signatureOf(signedBytes(unsigned, destination), secrets, destination);
  return { ...unsigned, headers: { ...unsigned.headers, "rf-hmac": hmac } };
}
