import { longestMs } from "../../queue/retry-policy.js";
import { checkAnswers } from "./check-answer.js";
import { checkHandshake } from "./check-handshake.js";
import { checkVerify } from "./check-verify.js";
import {
  asList,
  checkOneOf,
  checkTexts,
  isHeaderName,
  isObject,
  type Report,
  refuseFields,
} from "./field-checks.js";
import { type CheckedScheme, overridableFields, type ReadScheme, readScheme } from "./read-scheme.js";
import type { WebhookScheme } from "./scheme.js";
import { hasHmac } from "./signing-key.js";
import { windowMs } from "./time-window.js";

const schemeFields = ["verify", ...overridableFields, "methods", "handshakes", "answer", "refusals"];
/** Headers that may hold a secret. They are never stored. */
const secretHeader =
  /signature|authori[sz]ation|cookie|secret|password|hmac|credential|api-?key|(?:^|[-_])token/i;

/** Reads a scheme, and checks all of it. It may come from a JSON file, so every field is checked. */
export const checkScheme: ReadScheme = (given, problems) => {
  const report = (problem: string): void => {
    problems.push(problem);
  };
  const checked = readScheme(given, problems);
  const { scheme } = checked;
  if (!isObject(given)) report("scheme must be a preset, the name of one, or an object");
  refuseFields(scheme, schemeFields, "scheme", report);
  checkLists(scheme, report);
  const { receiveMs } = scheme;
  if (receiveMs !== undefined && !(typeof receiveMs === "number" && receiveMs > 0 && receiveMs <= longestMs))
    report(`receiveMs must be more than 0 and at most ${longestMs}`);
  checkAnswers(scheme, report);
  checkVerify(scheme.verify, checked, report);
  for (const [index, one] of asList(scheme.handshakes).entries())
    checkHandshake(one, `handshakes[${index}]`, report);
  checkHandshakesOf(checked, report);
  for (const { placeholder, text } of checked.messageId.flat()) {
    if (placeholder === "window" && windowMs(text) === undefined)
      report(`messageId has {window:${text}}; write it as 30s, 5m, 1h or 1d`);
  }
  return checked;
};

function checkLists(scheme: WebhookScheme, report: Report): void {
  checkTexts(scheme.keepHeaders, "keepHeaders", report);
  checkTexts(scheme.volatileFields, "volatileFields", report);
  checkTexts(scheme.contentTypes, "contentTypes", report);
  for (const name of asList(scheme.keepHeaders)) {
    if (!isHeaderName(name)) report(`keepHeaders: ${String(name)} is not a header name`);
    else if (secretHeader.test(name)) report(`keepHeaders: ${name} may hold a secret and cannot be kept`);
  }
  checkTexts(scheme.methods, "methods", report);
  if (scheme.methods?.length === 0) report("methods is empty");
  for (const method of asList(scheme.methods)) checkOneOf(method, ["POST", "GET"], "methods", report);
}

/** What the handshakes ask of the scheme's proof. */
function checkHandshakesOf({ scheme: { verify }, handshakes }: CheckedScheme, report: Report): void {
  if (handshakes.some(({ hmac }) => hmac !== undefined) && !(verify?.kind === "signature" && hasHmac(verify)))
    report("answer.hmac needs a scheme whose signatures are HMACs: verify.kind signature, without keys");
  if (
    handshakes.some(({ confirm }) => confirm !== undefined) &&
    !(verify?.kind === "signature" && verify.certificate)
  )
    report("answer.confirm needs verify.certificate, whose hosts may be called");
  for (const [index, { confirm, isInHead }] of handshakes.entries())
    if (confirm !== undefined && isInHead) report(`handshakes[${index}].answer.confirm needs a signed POST`);
}
