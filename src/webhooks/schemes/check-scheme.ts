import { longestMs } from "../../queue/retry-policy.js";
import { checkVerify } from "./check-verify.js";
import {
  anything,
  asList,
  type Check,
  checkFields,
  fields,
  isHeaderName,
  isObject,
  isText,
  numberUpTo,
  objectOf,
  oneOf,
  type Report,
  refuseFields,
  text,
  texts,
} from "./field-checks.js";
import { type CheckedScheme, type ReadScheme, readScheme } from "./read-scheme.js";
import { type Answer, type Handshake, refusalStatuses } from "./scheme.js";
import { hasHmac } from "./signing-key.js";
import { windowMs } from "./template.js";

/** Reads a scheme, and checks all of it. It may come from a JSON file, so every field is checked. */
export const checkScheme: ReadScheme = (given, problems) => {
  const report = (problem: string): void => {
    problems.push(problem);
  };
  const checked = readScheme(given, problems);
  const { scheme } = checked;
  if (!isObject(given)) report("scheme must be a preset, the name of one, or an object");
  checkFields(scheme, "scheme", schemeChecks, report);
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

/** Headers that may hold a secret. They are never stored. */
const secretHeader =
  /signature|authori[sz]ation|cookie|secret|password|hmac|credential|api-?key|(?:^|[-_])token/i;

const keptHeaders: Check = (value, name, report) => {
  texts(value, name, report);
  for (const header of asList(value)) {
    if (!isHeaderName(header)) report(`${name}: ${String(header)} is not a header name`);
    else if (secretHeader.test(header)) report(`${name}: ${header} may hold a secret and cannot be kept`);
  }
};

const deliveryMethods: Check = (value, name, report) => {
  texts(value, name, report);
  const methods = asList(value);
  if (methods.length === 0) report(`${name} is empty`);
  for (const method of methods) oneOf(["POST", "GET"])(method, name, report);
};

const answerOutcomes = ["enqueued", "duplicate", "done", "dead", "conflict", "empty"];

const deliveryAnswer: Check = (value, name, report) => {
  const { outcomes = {}, ...usual } = Object(value) as { readonly outcomes?: unknown };
  accepted(isObject(value) ? usual : value, name, report);
  answersBy(answerOutcomes, accepted)(outcomes, `${name}.outcomes`, report);
};

const answersBy = (known: readonly string[], check: Check): Check =>
  fields(Object.fromEntries(known.map((key) => [key, check])));

/** An answer that says the opposite of what happened would lose the webhook, or have it sent for ever. */
const fixedAnswer =
  (range: RegExp, statuses: string): Check =>
  (value, name, report) => {
    refuseFields(value, ["status", "contentType", "body", "json"], name, report);
    const { status, contentType, body, json } = Object(value) as Answer;
    if (status !== undefined && !(typeof status === "number" && range.test(String(status))))
      report(`${name}.status must be a status ${statuses}`);
    if (contentType !== undefined) text(contentType, `${name}.contentType`, report);
    if (body !== undefined && typeof body !== "string") report(`${name}.body must be a string`);
    if (body !== undefined && json !== undefined) report(`${name} has body and json; give one of them`);
  };

const accepted = fixedAnswer(/^2\d\d$/, "2xx");
const refused = fixedAnswer(/^[45]\d\d$/, "4xx or 5xx");

const schemeChecks = {
  verify: anything,
  split: anything,
  messageId: anything,
  topic: anything,
  partitionKey: anything,
  tenant: anything,
  keepHeaders: keptHeaders,
  volatileFields: texts,
  contentTypes: texts,
  receiveMs: numberUpTo(longestMs),
  methods: deliveryMethods,
  handshakes: anything,
  answer: deliveryAnswer,
  refusals: answersBy(Object.keys(refusalStatuses), refused),
};

/** What the handshakes ask of the scheme's proof. */
function checkHandshakesOf({ scheme: { verify }, handshakes }: CheckedScheme, report: Report): void {
  const signature = verify?.kind === "signature" ? verify : undefined;
  if (handshakes.some(({ hmac }) => hmac !== undefined) && !(signature && hasHmac(signature)))
    report("answer.hmac needs a scheme whose signatures are HMACs: verify.kind signature, without keys");
  if (handshakes.some(({ confirm }) => confirm !== undefined) && !signature?.certificate)
    report("answer.confirm needs verify.certificate, whose hosts may be called");
  for (const [index, { confirm, isInHead }] of handshakes.entries())
    if (confirm !== undefined && isInHead) report(`handshakes[${index}].answer.confirm needs a signed POST`);
}

/** Reports what is wrong with a handshake, besides its templates. */
function checkHandshake(given: Handshake, name: string, report: Report): void {
  const { method, when, verifyToken, unsigned, store, answer } = objectOf(given) as Handshake;
  const wrong = (problem: string) => report(`${name}.${problem}`);
  refuseFields(given, ["method", "when", "verifyToken", "unsigned", "store", "answer"], name, report);
  oneOf(["GET", "HEAD", "POST", "OPTIONS"])(method, `${name}.method`, report);
  if (!isObject(when)) wrong("when must be an object");
  const conditions = Object.entries(objectOf(when));
  if (method === "POST" && conditions.length === 0)
    wrong("when is empty: every event would be answered as a handshake, and none stored");
  for (const [template, equals] of conditions)
    if (equals !== true && !isText(equals))
      wrong(`when: ${template} must be a string, or true for any value`);
  if (unsigned !== undefined && !(unsigned === true && verifyToken === undefined))
    wrong("unsigned must be true, and without a verifyToken");
  if (store !== undefined && !(store === true && method === "POST" && verifyToken !== undefined))
    wrong("store must be true, and for a POST with a verifyToken: nothing unproven is stored");
  checkHandshakeAnswer(answer, `${name}.answer`, report);
}

function checkHandshakeAnswer(answer: Handshake["answer"], name: string, report: Report): void {
  refuseFields(answer, ["status", "text", "json", "headers", "hmac", "confirm"], name, report);
  const { text, json, status = 200, headers = {} } = objectOf(answer) as Handshake["answer"];
  if (text !== undefined && json !== undefined) report(`${name} has text and json; give one of them`);
  if (!(Number.isInteger(status) && status >= 200 && status <= 299))
    report(`${name}.status must be from 200 to 299`);
  if (!isObject(headers)) report(`${name}.headers must be an object`);
  for (const header of Object.keys(Object(headers)))
    if (!isHeaderName(header)) report(`${name}.headers: ${header} is not a header name`);
}
