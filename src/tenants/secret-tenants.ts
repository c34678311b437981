import type { Logger } from "../queue/logger.js";
import { safeReason } from "../queue/safe-reason.js";
import { tenantOfSecret } from "./secret-value.js";
import type { Tenant } from "./tenant.js";

/** Which secrets are tenants' databases. */
export interface SecretFilter {
  /** What their names begin with; the rest of the name is the tenant's key. */
  readonly prefix?: string;
  /** A tag that they have; with a value, if it must be that one. */
  readonly tag?: { readonly key: string; readonly value?: string };
  /** The tag that holds the tenant's key, where a name cannot. */
  readonly idTag?: string;
}

/** A secret as a list of secrets has it, without its text. */
export interface ListedSecret {
  readonly name: string;
  readonly tags: Readonly<Record<string, string>>;
  /** Another one when the text is another. */
  readonly version: string;
}

export type FetchTexts = (
  names: readonly string[],
  refused: (name: string, error: unknown) => void,
) => Promise<ReadonlyMap<string, string>>;

/**
 * Tenants from a store of secrets, whose texts are fetched once for each version: asking anew costs the list alone.
 * One that cannot be read keeps what it was, or is left out; the others are served.
 */
export function secretTenants(filter: SecretFilter) {
  let known = new Map<string, { readonly version: string; readonly tenant: Tenant }>();
  return async (
    listed: readonly ListedSecret[],
    fetchTexts: FetchTexts,
    logger: Logger,
  ): Promise<readonly Tenant[]> => {
    const wanted = listed.filter((secret) => isWanted(secret, filter));
    const next = new Map([...known].filter(([name]) => wanted.some((secret) => secret.name === name)));
    const refused = (name: string, error: unknown): void =>
      logger.warn("the secret of a tenant could not be read", { secret: name, reason: safeReason(error) });
    const changed = wanted.filter(({ name, version }) => next.get(name)?.version !== version);
    const texts = await fetchTexts(
      changed.map(({ name }) => name),
      refused,
    );
    for (const secret of changed) {
      const text = texts.get(secret.name);
      if (text === undefined) continue; // told already
      try {
        const tenant = tenantOfSecret(idOf(secret, filter), text);
        next.set(secret.name, { version: secret.version, tenant });
      } catch (error) {
        refused(secret.name, error);
      }
    }
    known = next;
    return [...next.values()].map(({ tenant }) => tenant);
  };
}

/** Looked at here as well: a store's own filter may mean something else by "begins with". */
const isWanted = ({ name, tags }: ListedSecret, { prefix = "", tag, idTag }: SecretFilter): boolean =>
  name.startsWith(prefix) &&
  (tag === undefined || (Object.hasOwn(tags, tag.key) && (tag.value ?? tags[tag.key]) === tags[tag.key])) &&
  (idTag === undefined || Object.hasOwn(tags, idTag));

const idOf = ({ name, tags }: ListedSecret, { prefix = "", idTag }: SecretFilter): string =>
  idTag === undefined ? name.slice(prefix.length) : tags[idTag]!;
