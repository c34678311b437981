import {
  createSecretKeys,
  digestOf,
  isSameDigest,
  leastSecretLength,
  type Secret,
  type Secrets,
} from "../base/secrets.js";
import { InvalidArgumentError } from "../errors.js";

/** What tokens look like. Neither a comma nor white space is in them, so both can stand between tokens. */
export interface TokenForm {
  /** Whose they are, in errors. */
  readonly owner: string;
  /** What is wrong with a token. The text never quotes it. */
  readonly problemOf: (token: string) => string | undefined;
}

/** A secret of the characters that RFC 6750 allows in a token. */
export function secretProblem(token: string): string | undefined {
  if (token.length < leastSecretLength) return `has fewer than ${leastSecretLength} characters`;
  const isRight = /^[A-Za-z0-9\-._~+/]+=*$/.test(token);
  return isRight ? undefined : "has a character other than letters, digits and -._~+/=";
}

/** No token is longer: a longer header is not compared. */
const bearer = /^Bearer +([\x21-\x7e]{1,4096})$/i;

export interface BearerTokensOptions {
  readonly fetchMs: number;
  readonly maxAgeMs: number;
  readonly clock: () => Date;
  readonly onStale: () => void;
}

/** Returns the token in a request's header if it is one of the valid ones. Rejects when the tokens cannot be fetched. */
export type FindToken = (authorization: string | null) => Promise<string | undefined>;

/** Keeps only digests of the tokens. A text may hold several tokens, with commas or white space between them. */
export function bearerTokens(tokens: Secrets, options: BearerTokensOptions, form: TokenForm): FindToken {
  const tokenProblem = problemOf(form);
  const list = [tokens].flat();
  const fetching = list.filter((token) => typeof token === "function");
  const given = list.filter((token) => typeof token !== "function");
  const problems = given.flatMap((token) => problemsOf(token, tokenProblem));
  if (list.length === 0) problems.push("there is none");
  if (problems.length > 0) throw new InvalidArgumentError(`${form.owner}: tokens: ${problems.join("; ")}.`);
  const fixed = given.flatMap(partsOf).map(digestOf);
  const fetched =
    fetching.length === 0
      ? undefined
      : createSecretKeys(fetching.map(separated), {
          ...options,
          toKey: (token) => tokenProblem(token) ?? digestOf(token as string),
          what: `A token of the ${form.owner}`,
        });
  return async (authorization) => {
    const token = bearer.exec(authorization ?? "")?.[1];
    const valid = fetched === undefined ? fixed : [...fixed, ...(await fetched.get())];
    if (token === undefined) return undefined;
    const digest = digestOf(token);
    // All are compared, so that the time does not reveal which one it is.
    return valid.filter((one) => isSameDigest(one, digest)).length > 0 ? token : undefined;
  };
}

const partsOf = (text: string): readonly string[] => text.split(/[\s,]+/).filter((part) => part !== "");

const separated =
  (fetchToken: Exclude<Secret, string>): Secret =>
  async () =>
    [await fetchToken()].flat().flatMap((text) => (typeof text === "string" ? partsOf(text) : text));

type Problem = (token: unknown) => string | undefined;

function problemsOf(token: unknown, tokenProblem: Problem): readonly string[] {
  const parts = typeof token === "string" ? partsOf(token) : [token];
  if (parts.length === 0) return ["one is empty"];
  return parts.flatMap((part) => {
    const problem = tokenProblem(part);
    return problem === undefined ? [] : [`one ${problem}`];
  });
}

const problemOf =
  (form: TokenForm): Problem =>
  (token) =>
    typeof token !== "string" || token === "" ? "is missing or empty" : form.problemOf(token);
