import { safeReason } from "../../base/logger.js";
import { plainHost } from "../../config/allowed-databases.js";
import { databaseUrlForms } from "../../config/database-url.js";
import { InvalidArgumentError, InvalidOperationError } from "../../errors.js";
import { refuseUnknown } from "../../queue/arguments.js";
import { fromRecords, type Tenant, type TenantDiscovery } from "../tenant.js";

/** Which secrets hold tenants' databases. */
export interface SecretFilter {
  /** Their names begin with it; the rest of the name is the tenant's key. */
  readonly prefix?: string;
  /** A tag that they have, with this value if one is given. */
  readonly tag?: { readonly key: string; readonly value?: string };
  /** The tag that holds the tenant's key, for keys that cannot be part of a name. */
  readonly idTag?: string;
}

/** An entry of a list of secrets: without the secret's text. */
export interface ListedSecret {
  readonly name: string;
  readonly tags: Readonly<Record<string, string>>;
  /** Changes when the text does. */
  readonly version: string;
}

/** A store of secrets, for one refresh of the tenants. */
export interface SecretStore {
  list(): Promise<readonly ListedSecret[]>;
  /** Reports each secret as soon as it is fetched: secrets that were reported before a time-out are kept. */
  fetchTexts(names: readonly string[], report: FetchReport): Promise<void>;
}

interface FetchReport {
  fetched(name: string, text: string): void;
  failed(name: string, error: unknown): void;
}

/**
 * Tenants from a store of secrets. Each version of a secret is fetched once, so a refresh costs only the list. A tenant
 * whose secret cannot be read keeps its last database, or is left out; the others are served. Thousands of secrets may
 * take longer than one refresh may: the next refresh continues with the rest.
 */
export function tenantsFromSecrets(
  what: string,
  filter: SecretFilter,
  open: (signal: AbortSignal) => Promise<SecretStore>,
): TenantDiscovery {
  refuseUnknown(filter, ["prefix", "tag", "idTag"], what);
  if (!filter.prefix && filter.tag === undefined)
    throw new InvalidArgumentError(
      `${what} needs a prefix or a tag that tells tenants' secrets from others.`,
    );
  let known = new Map<string, { readonly version: string; readonly tenant: Tenant }>();
  return fromRecords(async ({ signal, logger }) => {
    const store = await open(signal);
    const wanted = new Map(
      (await store.list())
        .filter((secret) => isWanted(secret, filter))
        .map((secret) => [secret.name, secret]),
    );
    known = new Map([...known].filter(([name]) => wanted.has(name)));
    const failed = (name: string, error: unknown): void =>
      logger.warn("the secret of a tenant could not be read", { secret: name, reason: safeReason(error) });
    const fetched = (name: string, text: string): void => {
      const secret = wanted.get(name);
      if (secret === undefined) return; // it was not asked for
      try {
        known.set(name, { version: secret.version, tenant: tenantOfSecret(idOf(secret, filter), text) });
      } catch (error) {
        failed(name, error);
      }
    };
    const changed = [...wanted.values()].filter(({ name, version }) => known.get(name)?.version !== version);
    await store.fetchTexts(
      changed.map(({ name }) => name),
      { fetched, failed },
    );
    return [...known.values()].map(({ tenant }) => tenant);
  });
}

/** Filtered here again: a store's own filter may mean something else by "begins with". */
const isWanted = ({ name, tags }: ListedSecret, { prefix = "", tag, idTag }: SecretFilter): boolean =>
  name.startsWith(prefix) &&
  (tag === undefined || (Object.hasOwn(tags, tag.key) && (tag.value ?? tags[tag.key]) === tags[tag.key])) &&
  (idTag === undefined || Object.hasOwn(tags, idTag));

const idOf = ({ name, tags }: ListedSecret, { prefix = "", idTag }: SecretFilter): string =>
  idTag === undefined ? name.slice(prefix.length) : tags[idTag]!;

/** The JSON that AWS writes for its own databases, and rotates. */
interface DatabaseSecret {
  readonly engine: string;
  readonly username?: string;
  readonly password?: string;
  readonly host: string;
  readonly port?: number | string;
  readonly dbname?: string;
}

/**
 * The tenant that a secret's text describes: a database URL, JSON with `url` and optionally `schema`, `inbox` and
 * `outbox`, or the JSON that AWS writes for a database. No error quotes the text.
 */
export function tenantOfSecret(id: string, text: string): Tenant {
  if (!text.trimStart().startsWith("{")) return { id, database: text.trim() };
  const { url, schema, inbox, outbox, ...rest } = parsed(id, text) as Partial<DatabaseSecret> &
    Record<"url" | "schema" | "inbox" | "outbox", string | undefined>;
  const database = url ?? urlOf(rest);
  if (typeof database !== "string") throw unreadable(id);
  return { id, database, schema, inbox, outbox };
}

function parsed(id: string, text: string): object {
  try {
    return Object(JSON.parse(text));
  } catch {
    throw unreadable(id);
  }
}

function urlOf({ engine, username, password, host, port, dbname }: Partial<DatabaseSecret>) {
  const scheme = /postgres/i.test(engine ?? "") ? "postgres" : /sqlserver/i.test(engine ?? "") ? "mssql" : "";
  // Anything else could be read as another host, or as parameters.
  const isPlain = typeof host === "string" && plainHost.test(host) && /^\d{0,5}$/.test(String(port ?? ""));
  if (scheme === "" || !isPlain) return undefined;
  const part = (value: string | undefined) => encodeURIComponent(value ?? "");
  return `${scheme}://${part(username)}:${part(password)}@${host}${port === undefined ? "" : `:${port}`}/${part(dbname)}`;
}

const unreadable = (id: string) =>
  new InvalidOperationError(
    `The secret of the tenant "${id}" is not a database URL. It must be ${databaseUrlForms}, or JSON with that as "url".`,
  );
