import * as z from "zod/mini";
import type { InvalidArgumentError } from "../errors.js";
import { checked } from "./problems.js";
import { secretReference } from "./secret-reference.js";

const text = z.string().check(z.minLength(1));
const id = z.string().check(
  z.minLength(1),
  z.maxLength(255),
  z.refine((value) => value.isWellFormed() && !value.includes("\0") && !value.endsWith(" "), {
    error: "must be well-formed, without NUL and without a space at the end",
  }),
);

const tenant = z.strictObject({
  id,
  /** A URL, or where it is kept. */
  database: z.union([text, secretReference()], "must be a database URL or a reference to a secret"),
  schema: z.optional(text),
  inbox: z.optional(text),
  outbox: z.optional(text),
});

export type TenantSettings = z.infer<typeof tenant>;

/** Tenants as somebody wrote them down: everything that is wrong in one error. */
export const checkTenants = (value: unknown, what: string): readonly TenantSettings[] =>
  checked(z.array(tenant), value, what);

/** One of many that were found: what is wrong with it, or undefined. The others can still be served. */
export function tenantProblem(value: unknown): string | undefined {
  try {
    checked(tenant, value, "tenant");
    return undefined;
  } catch (error) {
    return (error as InvalidArgumentError).message;
  }
}
