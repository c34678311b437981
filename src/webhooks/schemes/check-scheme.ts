import { type CheckedHandshake, checkHandshake } from "./check-handshake.js";
import { checkVerify } from "./check-verify.js";
import {
  type Alternatives,
  asList,
  checkTexts,
  isHeaderName,
  isObject,
  isText,
  parseAll,
  refuseFields,
} from "./field-checks.js";
import type { WebhookScheme } from "./scheme.js";
import { placeholdersInEvent, placeholdersOfTenant } from "./template.js";

/** A scheme with its templates parsed. */
export interface CheckedScheme {
  readonly scheme: WebhookScheme;
  /** The templates of the signed content, or of the token. */
  readonly proof: Alternatives;
  readonly messageId: Alternatives;
  readonly topic: Alternatives;
  readonly tenant: Alternatives;
  readonly handshakes: readonly CheckedHandshake[];
}

/** Fields by which a source overrides its scheme. */
export const overridableFields = [
  "messageId",
  "topic",
  "tenant",
  "keepHeaders",
  "volatileFields",
  "contentTypes",
] as const;
const schemeFields = ["verify", ...overridableFields, "handshakes", "answer"];
/** Headers that may hold a secret. They are never stored. */
const secretHeader =
  /signature|authori[sz]ation|cookie|secret|password|hmac|credential|api-?key|(?:^|[-_])token/i;

/** Parses a scheme and adds what is wrong with it to `problems`. It may come from a JSON file, so every field is checked. */
export function checkScheme(given: unknown, problems: string[]): CheckedScheme {
  const report = (problem: string): void => {
    problems.push(problem);
  };
  const scheme = (isObject(given) ? given : {}) as unknown as WebhookScheme;
  if (!isObject(given)) report("scheme must be a known name or an object");
  refuseFields(scheme, schemeFields, "scheme", report);
  checkTexts(scheme.keepHeaders, "keepHeaders", report);
  checkTexts(scheme.volatileFields, "volatileFields", report);
  checkTexts(scheme.contentTypes, "contentTypes", report);
  for (const name of asList(scheme.keepHeaders)) {
    if (!isHeaderName(name)) report(`keepHeaders: ${String(name)} is not a header name`);
    else if (secretHeader.test(name)) report(`keepHeaders: ${name} may hold a secret and cannot be kept`);
  }
  if (
    scheme.answer !== undefined &&
    !(isText(scheme.answer?.contentType) && typeof scheme.answer.body === "string")
  ) {
    report("answer must be { contentType, body }");
  }
  const handshakes = asList(scheme.handshakes).map((one, index) =>
    checkHandshake(one, `handshakes[${index}]`, report),
  );
  const { verify } = scheme;
  if (handshakes.some(({ hmac }) => hmac !== undefined) && (verify?.kind !== "signature" || verify.keys))
    report("answer.hmac needs a scheme whose signatures are HMACs: verify.kind signature, without keys");
  return {
    scheme,
    proof: checkVerify(verify, report),
    messageId: parseAll(scheme.messageId, placeholdersInEvent, "messageId", report),
    topic: parseAll(scheme.topic, placeholdersInEvent, "topic", report),
    tenant: parseAll(scheme.tenant, placeholdersOfTenant, "tenant", report),
    handshakes,
  };
}
