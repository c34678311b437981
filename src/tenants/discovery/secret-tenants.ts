import type { Logger } from "../../base/logger.js";
import { safeReason } from "../../base/safe-reason.js";
import type { Tenant } from "../tenant.js";
import { tenantOfSecret } from "./secret-value.js";

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

/** Tells of each as soon as it is there: when the time is over, what was told is kept. */
export type FetchTexts = (names: readonly string[], told: SecretsTold) => Promise<void>;

export interface SecretsTold {
  found(name: string, text: string): void;
  refused(name: string, error: unknown): void;
}

/**
 * Tenants from a store of secrets, whose texts are fetched once for each version: asking anew costs the list alone.
 * One that cannot be read keeps what it was, or is left out; the others are served. Thousands may need more time than
 * there is at once: the next time goes on with the others.
 */
export function secretTenants(filter: SecretFilter) {
  let known = new Map<string, { readonly version: string; readonly tenant: Tenant }>();
  return async (
    listed: readonly ListedSecret[],
    fetchTexts: FetchTexts,
    logger: Logger,
  ): Promise<readonly Tenant[]> => {
    const wanted = new Map(
      listed.filter((secret) => isWanted(secret, filter)).map((secret) => [secret.name, secret]),
    );
    known = new Map([...known].filter(([name]) => wanted.has(name)));
    const refused = (name: string, error: unknown): void =>
      logger.warn("the secret of a tenant could not be read", { secret: name, reason: safeReason(error) });
    const found = (name: string, text: string): void => {
      const secret = wanted.get(name);
      if (secret === undefined) return; // nobody asked for it
      try {
        known.set(name, { version: secret.version, tenant: tenantOfSecret(idOf(secret, filter), text) });
      } catch (error) {
        refused(name, error);
      }
    };
    const changed = [...wanted.values()].filter(({ name, version }) => known.get(name)?.version !== version);
    await fetchTexts(
      changed.map(({ name }) => name),
      { found, refused },
    );
    return [...known.values()].map(({ tenant }) => tenant);
  };
}

/** Looked at here as well: a store's own filter may mean something else by "begins with". */
const isWanted = ({ name, tags }: ListedSecret, { prefix = "", tag, idTag }: SecretFilter): boolean =>
  name.startsWith(prefix) &&
  (tag === undefined || (Object.hasOwn(tags, tag.key) && (tag.value ?? tags[tag.key]) === tags[tag.key])) &&
  (idTag === undefined || Object.hasOwn(tags, idTag));

const idOf = ({ name, tags }: ListedSecret, { prefix = "", idTag }: SecretFilter): string =>
  idTag === undefined ? name.slice(prefix.length) : tags[idTag]!;
