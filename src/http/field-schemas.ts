import * as z from "zod/mini";
import { isGuid } from "../base/uuid.js";

const guidRule = "must be a GUID";
export const guid = z.string(guidRule).check(z.refine(isGuid, guidRule));

/** A whole number of a query, where all values are texts. */
export const numberText = (least: number, most: number) => {
  const rule = wholeNumberRule(least, most);
  return z.pipe(
    z
      .string(rule)
      .check(z.refine((text) => /^\d{1,16}$/.test(text) && +text >= least && +text <= most, rule)),
    z.transform(Number),
  );
};

export const wholeNumberRule = (least: number, most: number) =>
  `must be a whole number from ${least} to ${most}`;

/** As in SQL's list and in operations. */
export const queryLimit = z.optional(numberText(1, 1_000));
export const queryCursor = z.optional(numberText(0, Number.MAX_SAFE_INTEGER));
