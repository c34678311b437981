import { memoisePromise } from "../../base/async.js";
import { requirePackage } from "../../base/require-package.js";
import {
  createSecretKeys,
  digestOf,
  isSameDigest,
  type SecretKeys,
  type SecretKeysOptions,
  type Secrets,
  SecretsRevoked,
} from "../../base/secrets.js";
import { senderProblem } from "./certificate-address.js";
import { type Delivery, provenEvents } from "./delivery.js";
import type { FetchText } from "./provider-keys.js";
import type { CheckedScheme } from "./read-scheme.js";
import type { SignatureRule, TokenRule, VerifyRule } from "./scheme.js";
import { createSignatureVerifier, isChallenge, withPrepare } from "./signature-verifier.js";
import { lengthProblem, type SigningKey, secretProblem, toVerifyingKey } from "./signing-key.js";
import { type Alternatives, fillFirst } from "./template.js";

export interface Verifier extends VerifyDelivery {
  /** Fetches the secrets, where they are not known yet. Resolves to a refusal that no body could change. */
  prepare(head: Delivery): Promise<Refusal | undefined>;
}

/** Resolves to undefined when the delivery is genuine. Rejects when the secrets cannot be fetched. */
export type VerifyDelivery = (delivery: Delivery) => Promise<Refusal | undefined>;

export interface VerifierSettings extends Omit<SecretKeysOptions<never>, "toKey"> {
  /** How far a timestamp may lie in the past and in the future. */
  readonly pastMs: number;
  readonly futureMs: number;
  readonly fetchText?: FetchText | undefined;
  /** Accepts secrets that can be guessed. */
  readonly allowShort: boolean;
}

/** Why a delivery is refused. It is logged and never sent to the caller. */
export type Refusal =
  | "signature missing"
  | "signature malformed"
  | "signature wrong"
  | "signed like a challenge"
  | "timestamp missing"
  | "timestamp too old"
  | "timestamp too new"
  | "signed header missing"
  | "signed header ambiguous"
  | "body not signed"
  | "body too long to verify"
  | "too many items to verify"
  | "sender unknown"
  | "algorithm unknown"
  | "certificate not of the provider"
  | "certificate not valid"
  | "tenant missing"
  | "tenant unknown"
  | "token missing"
  | "token wrong";

export function createVerifier(
  checked: CheckedScheme,
  secrets: Secrets,
  settings: VerifierSettings,
): Verifier {
  const { verify } = checked.scheme;
  if (verify.kind === "token") {
    const proof = createTokenVerifier(tokensOf(checked, verify), secrets, settings);
    // a token in the head proves the delivery before its body is read
    return isInHead(checked.proof) ? Object.assign(proof, { prepare: proof }) : proof;
  }
  const toPinned = toPinnedOf(verify, settings.allowShort);
  if (verify.kind === "jwt") {
    requirePackage("jose", "A scheme with JSON web tokens");
    return lazyVerifier({ secrets, toPinned }, settings, async (pinned) =>
      (await import("./jwt-verifier.js")).createJwtVerifier(checked, verify, pinned, settings),
    );
  }
  const { certificate } = verify;
  if (certificate !== undefined)
    return lazyVerifier({ secrets, toPinned }, settings, async (pinned) => {
      const { certificateKeys } = await import("./provider-keys.js");
      const keysOf = certificateKeys(checked, { ...verify, certificate }, pinned, settings);
      return createSignatureVerifier(checked, verify, keysOf, settings);
    });
  const keys = signingKeys(verify, secrets, settings);
  return withPrepare(createSignatureVerifier(checked, verify, keys.get, settings), keys);
}

const signingKeys = (
  rule: SignatureRule,
  secrets: Secrets,
  settings: VerifierSettings,
): SecretKeys<SigningKey> =>
  createSecretKeys(secrets, { ...settings, toKey: (one) => toVerifyingKey(rule, one, settings.allowShort) });

/** The code for JSON web tokens, and that for certificates, is loaded by the first delivery: few apps have one. */
function lazyVerifier(
  { secrets, toPinned }: { readonly secrets: Secrets; readonly toPinned: ToPinned },
  settings: VerifierSettings,
  load: (pinned: SecretKeys<PinnedSecret>) => Promise<VerifyDelivery>,
): Verifier {
  const pinned = createSecretKeys(secrets, { ...settings, toKey: toPinned });
  const loaded = memoisePromise(() => load(pinned));
  return withPrepare(async (delivery) => (await loaded())(delivery), pinned);
}

type TokensOf = (delivery: Delivery) => readonly (string | undefined)[] | Refusal;

export function createTokenVerifier(
  tokensOf: TokensOf,
  secrets: Secrets,
  settings: VerifierSettings,
): Verifier {
  const toKey = (secret: unknown) => toTokenKey(secret, settings.allowShort);
  const keys = createSecretKeys(secrets, { ...settings, toKey });
  const verify: VerifyDelivery = async (delivery) => {
    const valid = await keys.get();
    const tokens = tokensOf(delivery);
    if (typeof tokens === "string") return tokens;
    if (tokens.length === 0) return "token missing";
    for (const token of tokens) {
      if (token === undefined) return "token missing";
      const given = digestOf(token);
      if (!valid.some((key) => isSameDigest(given, key))) return "token wrong";
    }
    return undefined;
  };
  return withPrepare(verify, keys);
}

const isInHead = (token: Alternatives): boolean =>
  token.flat().every(({ placeholder }) => placeholder !== "item");

/** The token of the delivery, or that of each of its items. */
const tokensOf =
  (checked: CheckedScheme, { prefix = "" }: TokenRule): TokensOf =>
  (delivery) => {
    const events = provenEvents(delivery, checked);
    if (typeof events === "string") return events;
    return events.map((event) => withoutPrefix(fillFirst(checked.proof, event), prefix));
  };

/** Returns undefined for a text without the prefix. As in `Bearer …`, its case does not count. */
export const withoutPrefix = (text: string | undefined, prefix: string): string | undefined =>
  text?.slice(0, prefix.length).toLowerCase() === prefix.toLowerCase()
    ? text.slice(prefix.length)
    : undefined;

/** Returns the HMAC of a challenge in the scheme's encoding, or undefined when the content is not a challenge. */
export type ChallengeSigner = (challenge: string) => Promise<string | undefined>;

/** Signs challenges of handshakes, where the scheme's signatures are HMACs. */
export function createChallengeSigner(
  { scheme: { verify }, handshakes }: CheckedScheme,
  secrets: Secrets,
  settings: VerifierSettings,
): ChallengeSigner | undefined {
  if (verify.kind !== "signature" || !handshakes.some(({ hmac }) => hmac !== undefined)) return undefined;
  const keys = signingKeys(verify, secrets, settings);
  return async (challenge) => {
    if (!isChallenge(challenge)) return undefined;
    const [key] = await keys.get(); // never empty: a source without a secret is refused
    return Buffer.from(key!.sign(Buffer.from(challenge))).toString(verify.encoding ?? "hex");
  };
}

/** How a source's secrets are checked before they are used. */
export const toKeyOf = (verify: VerifyRule, allowShort: boolean): ((secret: unknown) => object | string) => {
  if (verify.kind === "token") return (secret) => toTokenKey(secret, allowShort);
  if (verify.kind === "jwt" || verify.certificate !== undefined) return toPinnedOf(verify, allowShort);
  return (secret) => toVerifyingKey(verify, secret, allowShort);
};

export const toTokenKey = (secret: unknown, allowShort: boolean): Uint8Array | string =>
  secretProblem(secret) ??
  lengthProblem(Buffer.byteLength(secret as string), allowShort) ??
  digestOf(secret as string);

/** A secret that signs nothing: a name of the sender, or a public key for JSON web tokens. */
export interface PinnedSecret {
  readonly secret: string;
}

type ToPinned = (given: unknown) => PinnedSecret | string;

const toPinnedOf =
  (verify: VerifyRule, allowShort: boolean): ToPinned =>
  (given) => {
    const secret = typeof given === "string" ? given.trim() : given;
    return (
      secretProblem(secret) ??
      pinnedProblem(verify, secret as string, allowShort) ?? { secret: secret as string }
    );
  };

/** A name of the sender must be one that has a host. One of several texts that only the sender knows must be long. */
function pinnedProblem(verify: VerifyRule, secret: string, allowShort: boolean): string | undefined {
  if (verify.kind === "signature") return senderProblem(verify.certificate!, secret);
  const isSecret = verify.kind === "jwt" && verify.itemSecret !== undefined;
  return isSecret ? lengthProblem(Buffer.byteLength(secret), allowShort) : undefined;
}

/** Returns the secrets of a tenant, or undefined for an unknown one. */
export type TenantSecrets = (tenant: string) => FoundSecrets | Promise<FoundSecrets>;
type FoundSecrets = string | readonly string[] | undefined;

/** Tenants whose verifiers are kept, and as many that are known to be none. Their names come from anybody. */
const maxTenants = 1_000;
/** How long a tenant that has no secrets is taken for unknown. */
const unknownMs = 10_000;

class UnknownTenant extends SecretsRevoked {}

/** Verifies a delivery with the secrets of the tenant that it names. */
export function createTenantVerifier(
  template: Alternatives,
  secretsOf: TenantSecrets,
  verifierWith: (secrets: Secrets) => Verifier,
  clock: () => Date,
): Verifier {
  const known = new Map<string, Verifier>();
  /** Those whose secrets are being fetched for the first time. Only then is it clear whether they are kept. */
  const asked = new Map<string, Verifier>();
  const unknownUntil = new Map<string, number>();

  const fetchSecrets = async (tenant: string): Promise<string | readonly string[]> => {
    const found = await secretsOf(tenant);
    if (found === undefined || found.length === 0) throw new UnknownTenant("no secrets");
    return found;
  };

  const verifierOf = (tenant: string): Verifier => {
    const found = known.get(tenant) ?? asked.get(tenant) ?? verifierWith(() => fetchSecrets(tenant));
    if (!known.has(tenant)) asked.set(tenant, found);
    return found;
  };

  const withTenant = async (
    delivery: Delivery,
    use: (verifier: Verifier) => Promise<Refusal | undefined>,
  ): Promise<Refusal | undefined> => {
    const tenant = fillFirst(template, delivery);
    if (tenant === undefined) return "tenant missing";
    if ((unknownUntil.get(tenant) ?? 0) > clock().getTime()) return "tenant unknown";
    const verifier = verifierOf(tenant);
    try {
      const refusal = await use(verifier);
      putLast(known, tenant, verifier);
      return refusal;
    } catch (error) {
      if (!(error instanceof UnknownTenant)) throw error;
      known.delete(tenant);
      putLast(unknownUntil, tenant, clock().getTime() + unknownMs);
      return "tenant unknown";
    } finally {
      asked.delete(tenant);
    }
  };

  return Object.assign((delivery: Delivery) => withTenant(delivery, (verify) => verify(delivery)), {
    prepare: (head: Delivery) => withTenant(head, (verify) => verify.prepare(head)),
  });
}

/** The last that were put are kept. */
function putLast<Value>(kept: Map<string, Value>, tenant: string, value: Value): void {
  kept.delete(tenant);
  kept.set(tenant, value);
  if (kept.size > maxTenants) kept.delete(kept.keys().next().value!);
}
