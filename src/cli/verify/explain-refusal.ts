import { type FetchText, fetchText } from "../../webhooks/schemes/fetch-text.js";
import { readTimestamp } from "../../webhooks/schemes/read-timestamp.js";
import { adviceFor } from "./advice.js";
import { type Attempt, deliveryOf, refusalOfAttempt, signsUrl } from "./attempt.js";
import { bodyChanges } from "./body-changes.js";
import { ruleChanges } from "./rule-changes.js";
import { secretChanges } from "./secret-changes.js";
import { publicUrlFor, urlChanges } from "./url-changes.js";

/** The verdict on a request. */
export interface Explanation {
  /** As the route's log has it. Undefined when the request is accepted. */
  readonly refusal?: string;
  /** What is wrong, and whether a change that would make it right was found. */
  readonly reason?: string;
  readonly advice?: string;
}

/** A secret of another source, by that source's name. */
export interface OtherSecret {
  readonly source: string;
  readonly secret: string;
}

interface Change {
  readonly reason: string;
  readonly advice: string;
  readonly attempt: Attempt;
}

/** Says why a request is refused: tries the likely changes, and names the one that would make it right. */
export async function explainRefusal(
  attempted: Attempt,
  others: readonly OtherSecret[] = [],
): Promise<Explanation> {
  const given = { ...attempted, fetchText: fetchedOnce(attempted.fetchText) };
  const refusal = await refusalOfAttempt(given);
  if (refusal === undefined) return {};
  const onTime = atItsOwnTime(given);
  if (refusal.startsWith("timestamp too") && (await refusalOfAttempt(onTime)) === undefined)
    return { refusal, ...timeExplanation(given, onTime.at) };
  for (const { reason, advice, attempt } of changesOf(onTime, others)) {
    if ((await refusalOfAttempt(attempt)) === undefined) return { refusal, reason, advice };
  }
  return { refusal, ...adviceFor(refusal, given) };
}

/** Each change is verified anew, and a provider is asked for its key once. */
function fetchedOnce(fetch: FetchText = fetchText): FetchText {
  const known = new Map<string, Promise<string>>();
  return (url, signal) => {
    const text = known.get(url) ?? fetch(url, signal);
    known.set(url, text);
    return text;
  };
}

/** The changes are tried as if the request had arrived when it was signed: the time is a question of its own. */
function atItsOwnTime(attempt: Attempt): Attempt {
  const { verify } = attempt.scheme;
  const rule = verify.kind === "signature" ? verify.timestamp : undefined;
  const time = rule && readTimestamp(deliveryOf(attempt), rule);
  return time === undefined ? attempt : { ...attempt, at: new Date(time.ms) };
}

function timeExplanation({ at }: Attempt, signedAt: Date): Required<Pick<Explanation, "reason" | "advice">> {
  const seconds = Math.round(Math.abs(at.getTime() - signedAt.getTime()) / 1_000);
  const isOld = signedAt < at;
  return {
    reason: `the signature is right, and its time ${signedAt.toISOString()} is ${seconds} s ${isOld ? "ago" : "ahead"}`,
    advice: isOld
      ? "A captured request grows old: --at says when it arrived. If it was late then, too, check this machine's clock and what holds requests up."
      : "Check the clock of this machine.",
  };
}

function* changesOf(attempt: Attempt, others: readonly OtherSecret[]): Generator<Change> {
  yield* bodiesOf(attempt);
  if (signsUrl(attempt.scheme)) yield* urlsOf(attempt);
  yield* secretsOf(attempt, others);
  for (const { what, scheme } of ruleChanges(attempt.scheme)) {
    const advice = "Check the version of the provider's webhooks, or set it in a scheme of your own.";
    yield { reason: `${what}, unlike the scheme's`, advice, attempt: { ...attempt, scheme } };
  }
}

function* bodiesOf(attempt: Attempt): Generator<Change> {
  const { request } = attempt;
  for (const { what, body } of bodyChanges(request.body)) {
    const reason = `the body was changed on the way: ${what}, the signature is right`;
    const advice =
      "Give the route the bytes as they arrive, before anything parses, decodes or formats them.";
    yield { reason, advice, attempt: { ...attempt, request: { ...request, body } } };
  }
}

function* urlsOf(attempt: Attempt): Generator<Change> {
  const { request } = attempt;
  for (const url of urlChanges(request.url, request.headers)) {
    const publicUrl = publicUrlFor(url, request.url);
    const reason = `a proxy changed the URL: the provider signed ${url}, and the request arrived at ${request.url}`;
    const advice =
      publicUrl === undefined
        ? "Let the proxy pass on the path and the query as they are."
        : `Set publicUrl (or ONCEBOX_PUBLIC_URL) to ${publicUrl}`;
    yield { reason, advice, attempt: { ...attempt, request: { ...request, url } } };
  }
}

function* secretsOf(attempt: Attempt, others: readonly OtherSecret[]): Generator<Change> {
  for (const given of attempt.secrets)
    for (const { what, secret } of secretChanges(given)) {
      const advice = "Copy the secret from the provider once more.";
      yield { reason: `the secret ${what}`, advice, attempt: { ...attempt, secrets: [secret] } };
    }
  for (const { source, secret } of others) {
    const reason = `it is signed with the secret of the source ${source}`;
    const advice = `Give the provider the address of ${source}, or this source that secret.`;
    yield { reason, advice, attempt: { ...attempt, secrets: [secret] } };
  }
}
