import * as z from "zod/mini";
import { longestKey, longestOwner } from "../inbox-store.js";
import { keyProblem } from "../key.js";

/** What JSON Schema can say of `keyProblem`. Written without \p{Cc}, which not every reader of JSON Schema knows. */
const control = "\\u0000-\\u001f\\u007f-\\u009f";
const plainText = new RegExp(`^[^${control}]*[^${control} ]$`);

/** A text that every provider stores and compares in the same way. One sentence says all that it must be. */
function text(longest: number, description: string) {
  const rule = `must be a text of 1 to ${longest} characters, without control characters and without a space at its end`;
  return z.string(rule).check(
    z.maxLength(longest, rule),
    z.regex(plainText, rule),
    z.refine((value) => keyProblem(value) === undefined, rule),
    z.describe(description),
  );
}

export const key = text(
  longestKey,
  "Names what is processed once, for example `orders:billing:order.placed:42`. Its length is counted in UTF-16 code units.",
);

export const owner = text(
  longestOwner,
  "Who asks, for operators to read. It gives no rights: only the lease id does.",
);

export const leaseId = z
  .guid("must be the leaseId that try-begin returned")
  .check(z.describe("The lease, as try-begin returned it."));

export const wantedLeaseId = z
  .guid("must be a UUID")
  .check(
    z.describe(
      "The id that the lease gets: a UUID made for this request alone. The same request, sent again because its answer was lost, gets the same lease.",
    ),
  );

export interface LeaseBounds {
  readonly minLeaseSeconds: number;
  readonly maxLeaseSeconds: number;
}

/** How long the lease of a request is that does not say it. */
export const defaultLeaseSeconds = ({ minLeaseSeconds, maxLeaseSeconds }: LeaseBounds): number =>
  Math.min(Math.max(30, minLeaseSeconds), maxLeaseSeconds);

export function leaseSeconds(bounds: LeaseBounds) {
  const { minLeaseSeconds: least, maxLeaseSeconds: most } = bounds;
  const rule = `must be a whole number from ${least} to ${most}`;
  return z
    .int(rule)
    .check(
      z.gte(least, rule),
      z.lte(most, rule),
      z.describe(`How long the lease is; ${defaultLeaseSeconds(bounds)} if it is absent.`),
    );
}

export const time = (description: string) => z.iso.datetime().check(z.describe(description));
