import { checkText, isObject, type Report, refuseFields } from "./field-checks.js";
import { refusalStatuses } from "./refusal-statuses.js";
import type { Answer, WebhookScheme } from "./scheme.js";

const outcomes = ["enqueued", "duplicate", "done", "dead", "conflict", "empty"];

export function checkAnswers({ answer, refusals }: WebhookScheme, report: Report): void {
  if (answer !== undefined) {
    const { outcomes: byOutcome = {}, ...usual } = Object(answer) as NonNullable<typeof answer>;
    checkAnswer(isObject(answer) ? usual : answer, "answer", 2, report);
    checkEach(byOutcome, "answer.outcomes", outcomes, report);
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
