import { checkOneOf, isHeaderName, isObject, isText, type Report, refuseFields } from "./field-checks.js";
import type { Handshake } from "./scheme.js";

/** Reports what is wrong with a handshake, besides its templates. */
export function checkHandshake(given: Handshake, name: string, report: Report): void {
  const handshake = (isObject(given) ? given : {}) as Handshake;
  const { method, verifyToken, unsigned, store } = handshake;
  const wrong = (problem: string) => report(`${name}.${problem}`);
  const object = (value: unknown, what: string): object => {
    if (!isObject(value)) wrong(`${what} must be an object`);
    return isObject(value) ? value : {};
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
  checkAnswer(object(handshake.answer, "answer") as Handshake["answer"], name, report);
}

function checkAnswer(answer: Handshake["answer"], name: string, report: Report): void {
  const wrong = (problem: string) => report(`${name}.answer${problem}`);
  refuseFields(answer, ["status", "text", "json", "headers", "hmac", "confirm"], `${name}.answer`, report);
  if (answer.text !== undefined && answer.json !== undefined) wrong(" has text and json; give one of them");
  const { status = 200, headers = {} } = answer;
  if (!(Number.isInteger(status) && status >= 200 && status <= 299)) wrong(".status must be from 200 to 299");
  if (!isObject(headers)) wrong(".headers must be an object");
  for (const header of Object.keys(Object(headers)))
    if (!isHeaderName(header)) wrong(`.headers: ${header} is not a header name`);
}
