import type * as z from "zod/mini";
import { InvalidArgumentError } from "../errors.js";

/** The value as the schema gives it back, or one error with all that is wrong and where. No value is quoted. */
export function checked<Schema extends z.ZodMiniType>(
  schema: Schema,
  value: unknown,
  what: string,
): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const problems = result.error.issues.map(({ path, message }) =>
    path.length === 0 ? message : `${path.map(String).join(".")}: ${message}`,
  );
  throw new InvalidArgumentError(`${what}: ${problems.join("; ")}.`);
}
