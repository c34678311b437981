import { answeredWithin } from "../base/answered-within.js";
import { InvalidOperationError } from "../errors.js";

/** A secret, or what fetches it from where it is kept. */
export type Secret = string | (() => SecretText | Promise<SecretText>);
type SecretText = string | readonly string[];

/** One secret, or several that are all valid while they are rotated. */
export type Secrets = Secret | readonly Secret[];

export interface SecretKeys<Key> {
  /** All of them. What has to be fetched is fetched when it is first asked for, and kept for a while. */
  get(): Promise<readonly Key[]>;
}

export interface SecretKeysOptions<Key> {
  /** The key, or what is wrong with the secret. */
  readonly toKey: (secret: unknown) => Key | string;
  /** How long fetched secrets are used before they are asked for again. */
  readonly maxAgeMs: number;
  /** How long fetching them may take. */
  readonly fetchMs: number;
  readonly clock: () => Date;
  /** A refresh failed, and the secrets from before are used on. */
  readonly onStale: () => void;
}

/** While they cannot be fetched the last ones are used for so long, so that not every webhook waits for a store that is away. */
const staleMs = 30_000;

/** The problems of the secrets that are given as text; those to be fetched show theirs later. */
export function secretsProblems(
  secrets: unknown,
  toKey: (secret: unknown) => unknown,
  name: string,
): readonly string[] {
  const list = listOf(secrets);
  if (list.length === 0) return [`${name} is missing or empty`];
  return list.flatMap((secret, index) => {
    const problem = typeof secret === "function" ? undefined : toKey(secret);
    return typeof problem === "string" ? [`${name}[${index}] ${problem}`] : [];
  });
}

export function createSecretKeys<Key extends object>(
  secrets: Secrets,
  options: SecretKeysOptions<Key>,
): SecretKeys<Key> {
  const list = listOf(secrets) as readonly Secret[];
  const fetchAll = async (): Promise<readonly Key[]> => {
    const texts = await Promise.all(
      list.map(async (secret) => listOf(typeof secret === "function" ? await secret() : secret)),
    );
    if (texts.some((found) => found.length === 0)) throw badSecret("is missing or empty");
    return texts.flat().map((text) => {
      const key = options.toKey(text);
      if (typeof key === "string") throw badSecret(key);
      return key;
    });
  };
  const isFixed = list.every((secret) => typeof secret === "string");

  let kept: { readonly keys: readonly Key[]; readonly until: number } | undefined;
  let fetching: Promise<readonly Key[]> | undefined;

  const refresh = async (): Promise<readonly Key[]> => {
    const before = kept;
    // What comes too late for this webhook is there for the next one, unless somebody else was quicker.
    const fetched = fetchAll().then((keys) => {
      if (kept?.keys === before?.keys)
        kept = { keys, until: isFixed ? Infinity : options.clock().getTime() + options.maxAgeMs };
      return keys;
    });
    try {
      return await answeredWithin(options.fetchMs, "The secret store", fetched);
    } catch (error) {
      if (before === undefined) throw error;
      options.onStale();
      kept = { keys: before.keys, until: options.clock().getTime() + Math.min(staleMs, options.maxAgeMs) };
      return before.keys;
    }
  };

  return {
    async get() {
      if (kept !== undefined && options.clock().getTime() < kept.until) return kept.keys;
      // one fetch for all who wait; a failure is not kept
      fetching ??= refresh().finally(() => {
        fetching = undefined;
      });
      return fetching;
    },
  };
}

const listOf = (value: unknown): readonly unknown[] =>
  Array.isArray(value) ? value : value === undefined || value === null ? [] : [value];

const badSecret = (problem: string) =>
  new InvalidOperationError(`A webhook secret that was fetched ${problem}.`);
