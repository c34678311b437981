import { type Attempt, signsUrl } from "./attempt.js";
import type { Explanation } from "./explain-refusal.js";

type Advice = Pick<Explanation, "reason" | "advice">;

/** What can be said when none of the likely changes makes the request right. */
export function adviceFor(refusal: string, attempt: Attempt): Advice {
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
