import { secretProblem, type TokenForm } from "../service/http/bearer-tokens.js";

/** The name may not look like a part of the secret in a log: it has neither a colon nor a slash. */
const namePattern = /^[A-Za-z0-9._@-]{1,64}$/;

/** `name:secret`: the name is recorded with everything that is done by it. */
export const adminTokens: TokenForm = {
  owner: "admin",
  problemOf(token) {
    const colon = token.indexOf(":");
    if (colon < 1) return "is not of the form name:secret";
    if (!namePattern.test(token.slice(0, colon)))
      return "has a name of more than 64 characters, or with others than letters, digits and ._@-";
    const problem = secretProblem(token.slice(colon + 1));
    return problem && `has a secret that ${problem}`;
  },
};

/** Whose token it is. */
export const nameIn = (token: string): string => token.slice(0, token.indexOf(":"));
