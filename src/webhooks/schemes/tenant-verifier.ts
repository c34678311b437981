import type { Delivery } from "./delivery.js";
import type { Alternatives } from "./field-checks.js";
import type { Secrets } from "./secret-keys.js";
import { fillFirst } from "./template.js";
import type { Verifier } from "./verifier.js";

/** Returns the secrets of a tenant, or undefined for an unknown one. */
export type TenantSecrets = (tenant: string) => Found | Promise<Found>;
type Found = string | readonly string[] | undefined;

/** Verifiers that are kept. The names of tenants come from anybody. */
const maxKept = 1_000;

class UnknownTenant extends Error {}

/** Verifies a delivery with the secrets of the tenant that it names. */
export function createTenantVerifier(
  template: Alternatives,
  secretsOf: TenantSecrets,
  verifierWith: (secrets: Secrets) => Verifier,
): Verifier {
  const kept = new Map<string, Verifier>();

  const verifierOf = (tenant: string): Verifier => {
    const found = kept.get(tenant) ?? verifierWith(() => secretsOrThrow(secretsOf, tenant));
    kept.delete(tenant); // the last that were used are kept
    kept.set(tenant, found);
    if (kept.size > maxKept) kept.delete(kept.keys().next().value!);
    return found;
  };

  const withTenant = async <T>(
    delivery: Delivery,
    use: (verifier: Verifier) => Promise<T>,
  ): Promise<T | "tenant missing" | "tenant unknown"> => {
    const tenant = fillFirst(template, delivery);
    if (tenant === undefined) return "tenant missing";
    try {
      return await use(verifierOf(tenant));
    } catch (error) {
      if (!(error instanceof UnknownTenant)) throw error;
      kept.delete(tenant);
      return "tenant unknown";
    }
  };

  return Object.assign((delivery: Delivery) => withTenant(delivery, (verify) => verify(delivery)), {
    prepare: (head: Delivery) => withTenant(head, (verify) => verify.prepare(head)),
  });
}

async function secretsOrThrow(secretsOf: TenantSecrets, tenant: string): Promise<string | readonly string[]> {
  const found = await secretsOf(tenant);
  if (found === undefined || found.length === 0) throw new UnknownTenant("no secrets");
  return found;
}
