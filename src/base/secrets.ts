import { createHash, timingSafeEqual } from "node:crypto";
import { InvalidOperationError } from "../errors.js";
import { singleFlight, withinTime } from "./async.js";

/** A secret, or a function that fetches it from a secret store. */
export type Secret = string | (() => SecretText | Promise<SecretText>);
type SecretText = string | readonly string[];

/** One secret, or several that are valid at the same time during a rotation. */
export type Secrets = Secret | readonly Secret[];

export interface SecretKeys<Key> {
  /** Returns the keys of all secrets. Calls secrets that are functions at the first use, and keeps their results for `maxAgeMs`. */
  get(): Promise<readonly Key[]>;
}

export interface SecretKeysOptions<Key> {
  /** Returns the key, or what is wrong with the secret. */
  readonly toKey: (secret: unknown) => Key | string;
  /** How long fetched secrets are used before they are fetched again. */
  readonly maxAgeMs: number;
  /** How long a fetch may take. Half of it, where the previous secrets can be used instead. */
  readonly fetchMs: number;
  readonly clock: () => Date;
  /** Called when a refresh failed and the previous secrets stay in use. */
  readonly onStale: () => void;
  /** The secret's name in errors: "A webhook secret" by default. */
  readonly what?: string;
}

/** How long the previous secrets stay in use after a failed refresh, so that not every webhook waits for an unavailable store. */
const staleMs = 30_000;

/** Returns the problems of secrets that are given as text. A fetched secret is checked when it is fetched. */
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
  const { what = "A webhook secret" } = options;
  const fetchAll = async (): Promise<readonly Key[]> => {
    const texts = await Promise.all(
      list.map(async (secret) => listOf(typeof secret === "function" ? await secret() : secret)),
    );
    if (texts.some((found) => found.length === 0)) throw badSecret(what, "is missing or empty");
    return texts.flat().map((text) => {
      const key = options.toKey(text);
      if (typeof key === "string") throw badSecret(what, key);
      return key;
    });
  };
  const isFixed = list.every((secret) => typeof secret === "string");

  let kept: { readonly keys: readonly Key[]; readonly until: number } | undefined;

  /** One fetch serves all webhooks that wait. A failure is not kept. */
  const refreshing = singleFlight(async (): Promise<readonly Key[]> => {
    const before = kept;
    // A fetch that is too late for this webhook serves the next one, unless a newer fetch has finished before.
    const fetched = fetchAll().then((keys) => {
      if (kept?.keys === before?.keys)
        kept = { keys, until: isFixed ? Infinity : options.clock().getTime() + options.maxAgeMs };
      return keys;
    });
    // the previous secrets take the place of fresh ones while there is time left to use them
    const fetchMs = before === undefined ? options.fetchMs : options.fetchMs / 2;
    try {
      return await withinTime(fetchMs, fetched, () => tooSlow(fetchMs));
    } catch (error) {
      const isRevoked = error instanceof SecretsRevoked;
      if (isRevoked) kept = undefined;
      if (isRevoked || before === undefined) throw error;
      options.onStale();
      kept = { keys: before.keys, until: options.clock().getTime() + Math.min(staleMs, options.maxAgeMs) };
      return before.keys;
    }
  });

  return {
    async get() {
      if (kept !== undefined && options.clock().getTime() < kept.until) return kept.keys;
      return refreshing.run();
    },
  };
}

/** The store has answered that there is no secret any more: the previous ones end, unlike when the store is away. */
export class SecretsRevoked extends Error {}

const listOf = (value: unknown): readonly unknown[] =>
  Array.isArray(value) ? value : value === undefined || value === null ? [] : [value];

const badSecret = (what: string, problem: string) =>
  new InvalidOperationError(`${what} that was fetched ${problem}.`);

const tooSlow = (ms: number) =>
  new InvalidOperationError(`The secret store did not respond within ${ms} ms.`);

/**
 * Compares digests or signatures in a time that says nothing about where they differ. Everything that proves a caller is
 * compared here. Of a secret itself, compare the digest: its length is no secret.
 */
export const isSameDigest = (given: Uint8Array, expected: Uint8Array): boolean =>
  given.byteLength === expected.byteLength && timingSafeEqual(given, expected);

/** A shorter secret can be guessed. In bytes, or in characters of a token. */
export const leastSecretLength = 16;

/** The SHA-256 of a secret. Digests have one length, so comparing them does not reveal that of the secret. */
export const digestOf = (secret: string): Uint8Array => createHash("sha256").update(secret).digest();
