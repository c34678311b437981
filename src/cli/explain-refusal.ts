import { omitUndefined } from "../base/defined.js";
import { InvalidArgumentError } from "../errors.js";
import { webhookDefaults } from "../webhooks/route-options.js";
import { checkScheme } from "../webhooks/schemes/check-scheme.js";
import { createDelivery, splitDelivery } from "../webhooks/schemes/delivery.js";
import { type FetchText, fetchText } from "../webhooks/schemes/provider-keys.js";
import type { WebhookScheme } from "../webhooks/schemes/scheme.js";
import { readTimestamp } from "../webhooks/schemes/signature-verifier.js";
import { signedContents } from "../webhooks/schemes/signed-content.js";
import { type ResolvedSource, resolveSources } from "../webhooks/sources.js";
import { bodyChanges, publicUrlFor, ruleChanges, secretChanges, urlChanges } from "./request-changes.js";

/** A request as it came over the wire. */
export interface CapturedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
  readonly body: Uint8Array;
}

/** A request, and the source that it would be sent to. */
export interface Attempt {
  readonly request: CapturedRequest;
  readonly scheme: WebhookScheme;
  readonly secrets: readonly string[];
  readonly toleranceMs?: number | undefined;
  /** When the request arrives. */
  readonly at: Date;
  /** Fetches certificates and keys of providers: by https, by default. */
  readonly fetchText?: FetchText;
}

/** The verdict on a request. */
export interface Explanation {
  /** As the route's log has it. Undefined when the request is accepted. */
  readonly refusal?: string;
  /** What is wrong, and whether a change that would make it right was found. */
  readonly reason?: string;
  readonly advice?: string;
}

/** The reason and the advice as lines for people. */
export const explanationLines = ({ reason, advice }: Explanation): readonly string[] => [
  ...(reason === undefined ? [] : [`why: ${reason}.`]),
  ...(advice === undefined ? [] : [`do: ${advice}`]),
];

/** A secret of another source, by that source's name. */
interface OtherSecret {
  readonly source: string;
  readonly secret: string;
}

/** Says why a request is refused: tries the likely changes, and names the first that would make it right. */
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
  for (const { reason, advice, ...change } of changesOf(onTime, others))
    if ((await refusalOfAttempt({ ...onTime, ...change })) === undefined) return { refusal, reason, advice };
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
  const time = rule && readTimestamp(createDelivery(attempt.request), rule);
  return time === undefined ? attempt : { ...attempt, at: new Date(time.ms) };
}

function timeExplanation({ at }: Attempt, signedAt: Date): Explanation {
  const seconds = Math.round(Math.abs(at.getTime() - signedAt.getTime()) / 1_000);
  const isOld = signedAt < at;
  return {
    reason: `the signature is right, and its time ${signedAt.toISOString()} is ${seconds} s ${isOld ? "ago" : "ahead"}`,
    advice: isOld
      ? "A captured request grows old: --at says when it arrived. If it was late then, too, check this machine's clock and what holds requests up."
      : "Check the clock of this machine.",
  };
}

/** A part of an attempt that is changed, and what to say if that makes it right. */
interface Change extends Partial<Attempt> {
  readonly reason: string;
  readonly advice: string;
}

function* changesOf(
  { request, scheme, secrets }: Attempt,
  others: readonly OtherSecret[],
): Generator<Change> {
  for (const { what, body } of bodyChanges(request.body))
    yield {
      reason: `the body was changed on the way: ${what}, the signature is right`,
      advice: "Give the route the bytes as they arrive, before anything parses, decodes or formats them.",
      request: { ...request, body },
    };
  for (const url of signsUrl(scheme) ? urlChanges(request.url, request.headers) : []) {
    const publicUrl = publicUrlFor(url, request.url);
    yield {
      reason: `a proxy changed the URL: the provider signed ${url}, and the request arrived at ${request.url}`,
      advice:
        publicUrl === undefined
          ? "Let the proxy pass on the path and the query as they are."
          : `Set publicUrl (or ONCEBOX_PUBLIC_URL) to ${publicUrl}`,
      request: { ...request, url },
    };
  }
  for (const { what, secret } of secrets.flatMap(secretChanges))
    yield {
      reason: `the secret ${what}`,
      advice: "Copy the secret from the provider once more.",
      secrets: [secret],
    };
  for (const { source, secret } of others)
    yield {
      reason: `it is signed with the secret of the source ${source}`,
      advice: `Give the provider the address of ${source}, or this source that secret.`,
      secrets: [secret],
    };
  for (const { what, scheme: changed } of ruleChanges(scheme))
    yield {
      reason: `${what}, unlike the scheme's`,
      advice: "Check the version of the provider's webhooks, or set it in a scheme of your own.",
      scheme: changed,
    };
}

/** Returns why the route would refuse the request, by the code that the route itself uses. Undefined when it would not. */
async function refusalOfAttempt(attempt: Attempt): Promise<string | undefined> {
  try {
    return await sourceOf(attempt).verify(createDelivery(attempt.request));
  } catch (error) {
    if (error instanceof InvalidArgumentError) return error.message; // a secret that the scheme cannot use
    throw error;
  }
}

function sourceOf({
  scheme,
  secrets,
  toleranceMs,
  at,
  fetchText: fetch = fetchText,
}: Attempt): ResolvedSource {
  const { handshakes: _, ...rest } = scheme; // they may need a token that is not at hand
  const source = { scheme: rest, secrets, allowShortSecrets: true, ...omitUndefined({ toleranceMs }) };
  const settings = { readScheme: checkScheme, clock: () => at, onStale: () => {}, fetchText: fetch };
  return resolveSources({ source }, [], { ...webhookDefaults, ...settings }).get("source")!;
}

/** Whether the provider signs the address that it calls. */
const signsUrl = ({ verify }: WebhookScheme): boolean =>
  verify.kind === "signature" &&
  [verify.signed].flat().some((template) => /\{(url|decodedUrl)\}/.test(template ?? ""));

/** What can be said when none of the likely changes makes the request right. */
function adviceFor(refusal: string, attempt: Attempt): Explanation {
  const { headers, body } = attempt.request;
  const size = `The body has ${body.length} bytes`;
  const found = similarHeaders(headers);
  switch (refusal) {
    case "signature missing":
    case "token missing":
      return {
        reason: `the request has no ${placeOf(attempt)}${found === "" ? "" : `; it has ${found}`}`,
        advice: "Check that the webhook has a secret at the provider, and that no proxy removes the header.",
      };
    case "signature malformed":
      return {
        reason: `${placeOf(attempt)} has no signature of the scheme's form`,
        advice: "Check the provider's name, and the version of its webhooks.",
      };
    case "timestamp missing":
      return {
        reason: "the request has no time, or one in another form",
        advice: "Check that no proxy removes the header.",
      };
    case "signature wrong":
      return {
        reason: "no likely change of the body, the URL or the secret makes the signature right",
        advice: `The secret is probably that of another webhook, or of another environment.${ofUrl(attempt)} ${size}: compare it with the length at the provider.`,
      };
    case "body not signed":
      return {
        reason: `the body is no form, and the URL does not end with ${digestOf(attempt)}, which would cover it`,
        advice: "Let the proxy pass on the query as it is. --url gives the address that the provider called.",
      };
    case "token wrong":
      return {
        reason: "the token is not one of the source's secrets",
        advice: "Compare it with the provider's.",
      };
    default:
      return { reason: refusal, advice: "Check the provider's name and the secret." };
  }
}

/** Nothing in the request says which address the provider called, where a proxy has changed it and adds no header. */
const ofUrl = ({ scheme, request }: Attempt): string =>
  signsUrl(scheme)
    ? ` Or the provider called another address than ${request.url}, which it signs: give that address with --url.`
    : "";

function placeOf({ scheme: { verify } }: Attempt): string {
  if (verify.kind !== "signature") return [verify.token].flat().join(" or ");
  return verify.header ?? verify.headers?.join(" or ") ?? verify.signatureIn ?? "signature";
}

const digestOf = ({ scheme: { verify } }: Attempt): string =>
  (verify.kind === "signature" ? verify.bodyDigestQuery : undefined) ?? "a digest of the body";

/** The names of headers that look like a signature. Their values are not shown. */
const similarHeaders = (headers: Headers): string =>
  [...headers.keys()].filter((name) => /signature|hmac|token|hook|verif/.test(name)).join(", ");

/**
 * Returns the exact text that the signature of a request must cover, one for each event where each has a signature of its
 * own. It holds the payload, so only a local run on the developer's machine may show it.
 */
export function signedTexts(attempt: Attempt): readonly string[] {
  if (attempt.secrets.length === 0) return [];
  const source = sourceOf(attempt);
  const { verify } = source.scheme;
  if (verify.kind !== "signature") return [];
  const whole = createDelivery(attempt.request);
  const isPerItem = verify.signatureIn?.includes("{item:") ?? false;
  const events = isPerItem ? splitDelivery(whole, source.split) : [whole];
  return events.flatMap((event) => {
    const timestamp = (verify.timestamp && readTimestamp(event, verify.timestamp)?.text) ?? "";
    // a name, where a certificate has the key; elsewhere it is not to be shown
    const secret = verify.certificate === undefined ? "[the secret]" : attempt.secrets[0];
    const contents = signedContents(event, { rule: verify, signed: source.proof }, { timestamp, secret });
    return typeof contents === "string"
      ? []
      : contents.slice(0, 1).map((one) => Buffer.from(one).toString("utf8"));
  });
}
