import * as z from "zod/mini";
import { isSecretReference, type SecretReference } from "./secret-reference.js";
import { validated } from "./validated.js";

const secret = z.union([z.string().check(z.minLength(1)), z.custom<SecretReference>(isSecretReference)]);
const secrets = z.union(
  [secret, z.array(secret).check(z.minLength(1))],
  'must be a secret, a reference to one like {"from": "env", "name": …}, or a list of them',
);
const scheme = z.union([z.string(), z.looseObject({})], "must be the name of a scheme, or a scheme itself");
const sources = z.catchall(
  z.object({}),
  z.looseObject({ scheme, secrets, verifyToken: z.optional(secrets) }),
);

/** Webhook sources by name. The fields of a scheme are checked where sources are resolved. */
export type SourcesFromJson = z.infer<typeof sources>;

export const sourcesFromJson = (value: unknown, what: string): SourcesFromJson =>
  validated(sources, value, what);
