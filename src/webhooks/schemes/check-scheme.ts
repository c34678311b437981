import { longestMs } from "../../queue/retry-policy.js";
import { checkAnswers } from "./check-answer.js";
import { type CheckedHandshake, checkHandshake } from "./check-handshake.js";
import { type CheckedSplit, checkSplit } from "./check-split.js";
import { type CheckedProof, checkVerify } from "./check-verify.js";
import {
  type Alternatives,
  asList,
  checkOneOf,
  checkTexts,
  isHeaderName,
  isObject,
  parseAll,
  type Report,
  refuseFields,
} from "./field-checks.js";
import type { WebhookScheme } from "./scheme.js";
import { hasHmac } from "./signing-key.js";
import { placeholdersInEvent, placeholdersOfId, placeholdersOfTenant } from "./template.js";
import { windowMs } from "./time-window.js";

/** A scheme with its templates parsed. */
export interface CheckedScheme extends CheckedProof {
  readonly scheme: WebhookScheme;
  readonly split: CheckedSplit | undefined;
  readonly messageId: Alternatives;
  readonly topic: Alternatives;
  readonly tenant: Alternatives;
  readonly handshakes: readonly CheckedHandshake[];
}

/** Fields by which a source overrides its scheme. */
export const overridableFields = [
  "split",
  "messageId",
  "topic",
  "tenant",
  "keepHeaders",
  "volatileFields",
  "contentTypes",
  "receiveMs",
] as const;
const schemeFields = ["verify", ...overridableFields, "methods", "handshakes", "answer", "refusals"];
/** Headers that may hold a secret. They are never stored. */
const secretHeader =
  /signature|authori[sz]ation|cookie|secret|password|hmac|credential|api-?key|(?:^|[-_])token/i;

/** Parses a scheme and adds what is wrong with it to `problems`. It may come from a JSON file, so every field is checked. */
export function checkScheme(given: unknown, problems: string[]): CheckedScheme {
  const report = (problem: string): void => {
    problems.push(problem);
  };
  const scheme = (isObject(given) ? given : {}) as unknown as WebhookScheme;
  if (!isObject(given)) report("scheme must be a preset, the name of one, or an object");
  refuseFields(scheme, schemeFields, "scheme", report);
  checkTexts(scheme.keepHeaders, "keepHeaders", report);
  checkTexts(scheme.volatileFields, "volatileFields", report);
  checkTexts(scheme.contentTypes, "contentTypes", report);
  for (const name of asList(scheme.keepHeaders)) {
    if (!isHeaderName(name)) report(`keepHeaders: ${String(name)} is not a header name`);
    else if (secretHeader.test(name)) report(`keepHeaders: ${name} may hold a secret and cannot be kept`);
  }
  const { receiveMs } = scheme;
  if (receiveMs !== undefined && !(typeof receiveMs === "number" && receiveMs > 0 && receiveMs <= longestMs))
    report(`receiveMs must be more than 0 and at most ${longestMs}`);
  checkTexts(scheme.methods, "methods", report);
  if (scheme.methods?.length === 0) report("methods is empty");
  for (const method of asList(scheme.methods)) checkOneOf(method, ["POST", "GET"], "methods", report);
  checkAnswers(scheme, report);
  const split = checkSplit(scheme.split, report);
  const handshakes = asList(scheme.handshakes).map((one, index) =>
    checkHandshake(one, `handshakes[${index}]`, split !== undefined, report),
  );
  const { verify } = scheme;
  if (handshakes.some(({ hmac }) => hmac !== undefined) && !(verify?.kind === "signature" && hasHmac(verify)))
    report("answer.hmac needs a scheme whose signatures are HMACs: verify.kind signature, without keys");
  if (
    handshakes.some(({ confirm }) => confirm !== undefined) &&
    !(verify?.kind === "signature" && verify.certificate)
  )
    report("answer.confirm needs verify.certificate, whose hosts may be called");
  for (const [index, { confirm, isInHead }] of handshakes.entries())
    if (confirm !== undefined && isInHead) report(`handshakes[${index}].answer.confirm needs a signed POST`);
  const ofItem = split === undefined ? [] : (["item"] as const);
  const inId = [...placeholdersInEvent, ...placeholdersOfId, ...ofItem];
  return {
    scheme,
    split,
    ...checkVerify(verify, split !== undefined, report),
    messageId: checkWindows(parseAll(scheme.messageId, inId, "messageId", report), report),
    topic: parseAll(scheme.topic, [...placeholdersInEvent, ...ofItem], "topic", report),
    tenant: parseAll(scheme.tenant, [...placeholdersOfTenant, ...ofItem], "tenant", report),
    handshakes,
  };
}

function checkWindows(templates: Alternatives, report: Report): Alternatives {
  for (const { placeholder, text } of templates.flat()) {
    if (placeholder === "window" && windowMs(text) === undefined)
      report(`messageId has {window:${text}}; write it as 30s, 5m, 1h or 1d`);
  }
  return templates;
}
