import type * as z from "zod/mini";
import en from "zod/v4/locales/en.js";
import { InvalidArgumentError } from "../errors.js";

/** zod/mini has no error texts of its own. They are passed with each call, so that the user's zod keeps its own language. */
const inEnglish: z.core.$ZodErrorMap = (issue) => en().localeError(issue);

/**
 * Returns the value as the schema parses it, or throws one error that lists all problems with their paths. The error
 * quotes no value. `others` are problems that the schema cannot express.
 */
export function validated<Schema extends z.ZodMiniType>(
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
