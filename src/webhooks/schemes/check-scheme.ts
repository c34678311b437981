import { longestMs } from "../../queue/retry-policy.js";
import { checkVerify } from "./check-verify.js";
import {
  asList,
  checkOneOf,
  checkText,
  checkTexts,
  isHeaderName,
  isObject,
  isText,
  objectOf,
  type Report,
  refuseFields,
} from "./field-checks.js";
import {
  type CheckedScheme,
  overridableFields,
  type ReadScheme,
  readScheme,
  refusalStatuses,
} from "./read-scheme.js";
import type { Answer, Handshake, WebhookScheme } from "./scheme.js";
import { hasHmac } from "./signing-key.js";
import { windowMs } from "./template.js";

const answerOutcomes = ["enqueued", "duplicate", "done", "dead", "conflict", "empty"];

export function checkAnswers({ answer, refusals }: WebhookScheme, report: Report): void {
  if (answer !== undefined) {
    const { outcomes: byOutcome = {}, ...usual } = Object(answer) as NonNullable<typeof answer>;
    checkAnswer(isObject(answer) ? usual : answer, "answer", 2, report);
    checkEach(byOutcome, "answer.outcomes", answerOutcomes, report);
  }
  if (refusals !== undefined) checkEach(refusals, "refusals", Object.keys(refusalStatuses), report);
}

function checkEach(answers: object, name: string, known: readonly string[], report: Report): void {
  refuseFields(answers, known, name, report);
  for (const [key, one] of Object.entries(answers ?? {}))
    checkAnswer(one, `${name}.${key}`, name === "refusals" ? 4 : 2, report);
}

/** An answer that says the opposite of what happened would lose the webhook, or have it sent for ever. */
function checkAnswer(given: unknown, name: string, least: 2 | 4, report: Report): void {
  refuseFields(given as object, ["status", "contentType", "body", "json"], name, report);
  const { status, contentType, body, json } = Object(given) as Answer;
  const range = least === 2 ? /^2\d\d$/ : /^[45]\d\d$/;
  if (status !== undefined && !(typeof status === "number" && range.test(String(status))))
    report(`${name}.status must be a status ${least === 2 ? "2xx" : "4xx or 5xx"}`);
  checkText(contentType, `${name}.contentType`, report);
  if (body !== undefined && typeof body !== "string") report(`${name}.body must be a string`);
  if (body !== undefined && json !== undefined) report(`${name} has body and json; give one of them`);
}

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

/** Reports what is wrong with a handshake, besides its templates. */
export function checkHandshake(given: Handshake, name: string, report: Report): void {
  const handshake = objectOf(given) as Handshake;
  const { method, verifyToken, unsigned, store } = handshake;
  const wrong = (problem: string) => report(`${name}.${problem}`);
  const object = (value: unknown, what: string): object => {
    if (!isObject(value)) wrong(`${what} must be an object`);
    return objectOf(value);
  };
  refuseFields(handshake, ["method", "when", "verifyToken", "unsigned", "store", "answer"], name, report);
  checkOneOf(method ?? "", ["GET", "HEAD", "POST", "OPTIONS"], `${name}.method`, report);
  const when = Object.entries(object(handshake.when, "when"));
  if (method === "POST" && when.length === 0)
    wrong("when is empty: every event would be answered as a handshake, and none stored");
  for (const [template, equals] of when)
    if (equals !== true && !isText(equals))
      wrong(`when: ${template} must be a string, or true for any value`);
  if (unsigned !== undefined && !(unsigned === true && verifyToken === undefined))
    wrong("unsigned must be true, and without a verifyToken");
  if (store !== undefined && !(store === true && method === "POST" && verifyToken !== undefined))
    wrong("store must be true, and for a POST with a verifyToken: nothing unproven is stored");
  checkHandshakeAnswer(object(handshake.answer, "answer") as Handshake["answer"], name, report);
}

function checkHandshakeAnswer(answer: Handshake["answer"], name: string, report: Report): void {
  const wrong = (problem: string) => report(`${name}.answer${problem}`);
  refuseFields(answer, ["status", "text", "json", "headers", "hmac", "confirm"], `${name}.answer`, report);
  if (answer.text !== undefined && answer.json !== undefined) wrong(" has text and json; give one of them");
  const { status = 200, headers = {} } = answer;
  if (!(Number.isInteger(status) && status >= 200 && status <= 299)) wrong(".status must be from 200 to 299");
  if (!isObject(headers)) wrong(".headers must be an object");
  for (const header of Object.keys(Object(headers)))
    if (!isHeaderName(header)) wrong(`.headers: ${header} is not a header name`);
}
