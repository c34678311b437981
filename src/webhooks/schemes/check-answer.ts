import { checkText, isObject, type Report, refuseFields } from "./field-checks.js";
import type { Answer, RefusalName, WebhookScheme } from "./scheme.js";

const answerFields = ["status", "contentType", "body", "json"];
const outcomes = ["enqueued", "duplicate", "done", "dead", "conflict"];
/** The statuses of refused requests. */
export const refusalStatuses = {
  "bad request": 400,
  unauthorized: 401,
  "not found": 404,
  "method not allowed": 405,
  "too slow": 408,
  "too large": 413,
  "unsupported media type": 415,
  unavailable: 503,
} as const satisfies Record<RefusalName, number>;

/** Statuses that come with a body of no length, whatever the answer says. */
const withoutBody = [204, 205, 304];

export function checkAnswers({ answer, refusals }: WebhookScheme, report: Report): void {
  if (answer !== undefined) {
    const { outcomes: byOutcome, ...usual } = (isObject(answer) ? answer : {}) as NonNullable<typeof answer>;
    if (!isObject(answer)) report("answer must be an object");
    checkAnswer(usual, "answer", [200, 299], report);
    checkEach(byOutcome, "answer.outcomes", outcomes, [200, 299], report);
  }
  checkEach(refusals, "refusals", Object.keys(refusalStatuses), [400, 599], report);
}

function checkEach(
  answers: unknown,
  name: string,
  known: readonly string[],
  range: readonly [number, number],
  report: Report,
): void {
  if (answers === undefined) return;
  refuseFields(answers as object, known, name, report);
  for (const [key, one] of Object.entries(answers ?? {})) checkAnswer(one, `${name}.${key}`, range, report);
}

function checkAnswer(given: unknown, name: string, [least, most]: readonly [number, number], report: Report) {
  refuseFields(given as object, answerFields, name, report);
  const { status, contentType, body, json } = (isObject(given) ? given : {}) as Answer;
  if (status !== undefined && !(Number.isInteger(status) && status >= least && status <= most))
    report(`${name}.status must be from ${least} to ${most}`);
  checkText(contentType, `${name}.contentType`, report);
  if (body !== undefined && typeof body !== "string") report(`${name}.body must be a string`);
  if (body !== undefined && json !== undefined) report(`${name} has body and json; give one of them`);
  if ((body || json !== undefined) && withoutBody.includes(status ?? 0))
    report(`${name} has a body, and the status ${status} has none`);
}
