import {
  createSecretKeys,
  digestOf,
  isSameDigest,
  leastSecretLength,
  type Secret,
  type SecretKeysOptions,
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

/** No token is longer: a longer header is not compared. */
const bearer = /^Bearer +([\x21-\x7e]{1,4096})$/i;

/** Returns the token in a request's header if it is one of the valid ones. Rejects when the tokens cannot be fetched. */
type FindToken = (authorization: string | null) => Promise<string | undefined>;

/** Keeps only digests of the tokens. A text may hold several tokens, with commas or white space between them. */
export function bearerTokens(
  tokens: Secrets,
  options: Omit<SecretKeysOptions<never>, "toKey" | "what">,
  form: TokenForm,
): FindToken {
  const all = checkTokens(tokens, form);
  const keys = createSecretKeys(all, {
    ...options,
    toKey: keyOf(form),
    what: `A token of the ${form.owner}`,
  });
  return async (authorization) => {
    const valid = await keys.get();
    const token = bearer.exec(authorization ?? "")?.[1];
    if (token === undefined) return undefined;
    const digest = digestOf(token);
    // All are compared, so that the time does not reveal which one it is.
    return valid.filter((one) => isSameDigest(one, digest)).length > 0 ? token : undefined;
  };
}

/** Returns the tokens one by one. Throws for those that are given as a text and cannot be right. */
export function checkTokens(tokens: Secrets, form: TokenForm): readonly Secret[] {
  const all = [tokens].flat().flatMap((token) => {
    if (typeof token === "function") return separated(token);
    const parts = partsOf(token);
    return parts.length === 0 ? "" : parts; // an empty one is reported
  });
  const problems = all.flatMap((token) => {
    const key = typeof token === "function" ? undefined : keyOf(form)(token);
    return typeof key === "string" ? `one ${key}` : [];
  });
  if (all.length === 0) problems.push("there is none");
  if (problems.length > 0) throw new InvalidArgumentError(`${form.owner}: tokens: ${problems.join("; ")}.`);
  return all;
}

/** The digest of a token, or what is wrong with it. */
const keyOf =
  ({ problemOf }: TokenForm) =>
  (token: unknown): Uint8Array | string =>
    typeof token !== "string" || token === "" ? "is missing or empty" : (problemOf(token) ?? digestOf(token));

const partsOf = (text: string): readonly string[] =>
  typeof text === "string" ? text.split(/[\s,]+/).filter((part) => part !== "") : [text];

const separated =
  (fetchToken: Exclude<Secret, string>): Secret =>
  async () =>
    [await fetchToken()].flat().flatMap(partsOf);

/** What is wrong with a secret of the characters that RFC 6750 allows in a token. */
export function secretProblem(token: string): string | undefined {
  if (token.length < leastSecretLength) return `has fewer than ${leastSecretLength} characters`;
  const isRight = /^[A-Za-z0-9\-._~+/]+=*$/.test(token);
  return isRight ? undefined : "has a character other than letters, digits and -._~+/=";
}
