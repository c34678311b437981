import { createHash, timingSafeEqual } from "node:crypto";
import { InvalidArgumentError } from "../../errors.js";
import { createSecretKeys, type Secret, type Secrets } from "../../webhooks/schemes/secret-keys.js";

/** What RFC 6750 allows in a token. Neither a comma nor white space is in it, so both can stand between tokens. */
const tokenForm = /^[A-Za-z0-9\-._~+/]+=*$/;
const bearer = /^Bearer +([A-Za-z0-9\-._~+/]+=*)$/i;
const shortestToken = 16;

export interface BearerTokensOptions {
  readonly fetchMs: number;
  readonly maxAgeMs: number;
  readonly clock: () => Date;
  readonly onStale: () => void;
}

/** Returns whether a request's header has one of the tokens. Rejects when the tokens cannot be fetched. */
export type CheckToken = (authorization: string | null) => Promise<boolean>;

/** Keeps only digests of the tokens. A text may hold several tokens, with commas or white space between them. */
export function bearerTokens(tokens: Secrets, options: BearerTokensOptions): CheckToken {
  const list = [tokens].flat();
  const fetching = list.filter((token) => typeof token === "function");
  const given = list.filter((token) => typeof token !== "function");
  const problems = given.flatMap(problemsOf);
  if (list.length === 0) problems.push("there is none");
  if (problems.length > 0) throw new InvalidArgumentError(`service: tokens: ${problems.join("; ")}.`);
  const fixed = given.flatMap(partsOf).map(digestOf);
  const fetched =
    fetching.length === 0
      ? undefined
      : createSecretKeys(fetching.map(separated), { ...options, toKey, what: "A token of the service" });
  return async (authorization) => {
    const token = bearer.exec(authorization ?? "")?.[1];
    const valid = fetched === undefined ? fixed : [...fixed, ...(await fetched.get())];
    if (token === undefined) return false;
    const digest = digestOf(token);
    // All are compared, so that the time tells nothing about which one it is.
    return valid.filter((one) => timingSafeEqual(one, digest)).length > 0;
  };
}

const partsOf = (text: string): readonly string[] => text.split(/[\s,]+/).filter((part) => part !== "");

const separated =
  (fetchToken: Exclude<Secret, string>): Secret =>
  async () =>
    [await fetchToken()].flat().flatMap((text) => (typeof text === "string" ? partsOf(text) : text));

function problemsOf(token: unknown): readonly string[] {
  const parts = typeof token === "string" ? partsOf(token) : [token];
  if (parts.length === 0) return ["one is empty"];
  return parts.flatMap((part) => {
    const problem = tokenProblem(part);
    return problem === undefined ? [] : [`one ${problem}`];
  });
}

/** The text never quotes the token. */
function tokenProblem(token: unknown): string | undefined {
  if (typeof token !== "string" || token === "") return "is missing or empty";
  if (token.length < shortestToken) return `has fewer than ${shortestToken} characters`;
  return tokenForm.test(token) ? undefined : "has a character other than letters, digits and -._~+/=";
}

const toKey = (token: unknown): Uint8Array | string => tokenProblem(token) ?? digestOf(token as string);

/** Digests have one length, so comparing them does not reveal the token's length. */
const digestOf = (text: string): Uint8Array => createHash("sha256").update(text).digest();
