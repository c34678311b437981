import * as z from "zod/mini";

const requestCodes = [
  "BodyTooLarge",
  "BodyUnreadable",
  "NotJson",
  "NotAnObject",
  "MissingField",
  "UnknownField",
  "InvalidField",
] as const;

/** What is wrong with a request, and where. The sender gets it with status 400. */
export interface Refusal {
  readonly code: (typeof requestCodes)[number];
  readonly message: string;
  /** The field of the request, or "body". */
  readonly field: string;
  /** What a log gets instead of `field` where the sender has made up a name: that may be a pasted token. */
  readonly logged?: { readonly field?: string; readonly unknown?: number };
}

/** What the sender gets. */
export const answerOf = ({ code, message, field }: Refusal) => ({ code, message, field });

/** The body of a 400. */
export const badRequestAnswer = z.object({
  error: z.object({
    code: z.enum(requestCodes),
    message: z.string().check(z.describe("For people to read.")),
    field: z.string().check(z.describe("The field of the request that is wrong, or `body`.")),
  }),
});

/** The body of a 404, a 405 and a 503. */
export const failureAnswer = z.object({
  error: z.object({
    code: z.enum(["NotFound", "MethodNotAllowed", "Unavailable"]),
    message: z.string().check(z.describe("For people to read.")),
  }),
});
