import type * as z from "zod/mini";
import en from "zod/v4/locales/en.js";
import { InvalidArgumentError } from "../errors.js";

/** zod/mini has no words of its own. Given with each call, so that the user's own zod keeps the language it was set to. */
const inEnglish: z.core.$ZodErrorMap = (issue) => en().localeError(issue);

/**
 * The value as the schema gives it back, or one error with all that is wrong and where. No value is quoted. `others` are
 * problems that a schema cannot tell.
 */
export function checked<Schema extends z.ZodMiniType>(
  schema: Schema,
  value: unknown,
  what: string,
  others: readonly string[] = [],
): z.output<Schema> {
  const result = schema.safeParse(value, { error: inEnglish });
  if (result.success && others.length === 0) return result.data;
  const problems = (result.error?.issues ?? []).map(({ path, message }) =>
    path.length === 0 ? message : `${path.map(String).join(".")}: ${message}`,
  );
  throw new InvalidArgumentError(`${what}: ${[...problems, ...others].join("; ")}.`);
}
