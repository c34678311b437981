import { InvalidArgumentError } from "../errors.js";
import { requireName } from "../queue/arguments.js";
import { longestMs } from "../queue/retry-policy.js";
import { type ChallengeSigner, challengeSigner } from "./schemes/challenge.js";
import type { CheckedHandshake } from "./schemes/check-handshake.js";
import { type CheckedScheme, checkScheme, overridableFields } from "./schemes/check-scheme.js";
import { type Report, refuseFields } from "./schemes/field-checks.js";
import { type SchemeName, schemeOf } from "./schemes/known-schemes.js";
import type { WebhookScheme } from "./schemes/scheme.js";
import { createSecretKeys, type Secrets, secretsProblems } from "./schemes/secret-keys.js";
import { toVerifyingKey } from "./schemes/signing-key.js";
import { fill, fillFirst } from "./schemes/template.js";
import { createTenantVerifier, type TenantSecrets } from "./schemes/tenant-verifier.js";
import {
  createSignatureVerifier,
  createTokenVerifier,
  toTokenKey,
  type Verifier,
} from "./schemes/verifier.js";

/** A sender of webhooks to `/webhooks/{name}`, and how its webhooks are read. */
export interface WebhookSource extends Pick<WebhookScheme, (typeof overridableFields)[number]> {
  /** The name of a known provider, or a scheme of your own. */
  readonly scheme: SchemeName | WebhookScheme;
  /** All secrets that are valid at present. Not with `tenantSecrets`. */
  readonly secrets?: Secrets;
  /**
   * The secrets of one tenant, so that one tenant cannot sign for another; undefined for an unknown tenant. The tenant must
   * be in a header, the query or the path, and its secret proves it.
   */
  readonly tenantSecrets?: TenantSecrets;
  /** Accepts secrets of fewer than 16 bytes, which can be guessed from a single signed delivery. */
  readonly allowShortSecrets?: boolean;
  /** For handshakes that send one (Meta's `hub.verify_token`). */
  readonly verifyToken?: Secrets;
  /** How far a timestamp may differ from the clock, in the past and in the future. 5 minutes by default. */
  readonly toleranceMs?: number;
  /** 5 MiB by default. */
  readonly maxBodyBytes?: number;
}

export interface ResolvedSource extends CheckedScheme {
  readonly name: string;
  readonly maxBodyBytes: number;
  readonly verify: Verifier;
  readonly handshakes: readonly ResolvedHandshake[];
}

export interface ResolvedHandshake extends CheckedHandshake {
  /** The handshake's own verifier or the scheme's. Undefined when the handshake is unsigned. */
  readonly verify: Verifier | undefined;
  readonly signChallenge: ChallengeSigner | undefined;
}

export interface SourceDefaults {
  readonly toleranceMs: number;
  readonly maxBodyBytes: number;
  readonly secretsMaxAgeMs: number;
  readonly receiveMs: number;
  readonly clock: () => Date;
  readonly onStale: (source: string) => void;
}

const sourceFields = [
  "scheme",
  "secrets",
  "tenantSecrets",
  "allowShortSecrets",
  "verifyToken",
  "toleranceMs",
  "maxBodyBytes",
  ...overridableFields,
];

/** Checks all sources and returns them by name. One error lists all problems of all sources. */
export function resolveSources(
  sources: Readonly<Record<string, WebhookSource>>,
  defaults: SourceDefaults,
): ReadonlyMap<string, ResolvedSource> {
  const problems: string[] = [];
  const resolved = new Map<string, ResolvedSource>();
  for (const [name, source] of Object.entries(sources ?? {})) {
    const own: string[] = [];
    const made = resolveSource(name, source, defaults, own);
    if (made !== undefined) resolved.set(name, made);
    problems.push(...own.map((problem) => `${name}: ${problem}`));
  }
  if (resolved.size === 0 && problems.length === 0) problems.push("there is no source");
  if (problems.length > 0) throw new InvalidArgumentError(`Webhook sources: ${problems.join("; ")}.`);
  return resolved;
}

function resolveSource(
  name: string,
  source: WebhookSource,
  defaults: SourceDefaults,
  problems: string[],
): ResolvedSource | undefined {
  const report = (problem: string) => {
    problems.push(problem);
  };
  checkName(name, report);
  refuseFields(source, sourceFields, "the source", report);
  const given = (source ?? {}) as Partial<WebhookSource>;
  const { toleranceMs = defaults.toleranceMs, maxBodyBytes = defaults.maxBodyBytes } = given;
  if (!(typeof toleranceMs === "number" && toleranceMs > 0 && toleranceMs <= longestMs))
    report(`toleranceMs must be more than 0 and at most ${longestMs}`);
  if (!(Number.isSafeInteger(maxBodyBytes) && maxBodyBytes > 0))
    report("maxBodyBytes must be a whole number from 1 on");

  const wrong: string[] = [];
  const checked = checkScheme(withOverrides(schemeOf(given.scheme, report), given), wrong);
  if (wrong.length === 0) checkSecrets(given, checked, report);
  problems.push(...wrong);
  if (problems.length > 0) return undefined;

  const { secrets = [], verifyToken = [] } = given;
  const { clock, secretsMaxAgeMs: maxAgeMs, receiveMs: fetchMs } = defaults;
  const options = { clock, maxAgeMs, fetchMs, toleranceMs, onStale: () => defaults.onStale(name) };
  const rule = checked.scheme.verify.kind === "signature" ? checked.scheme.verify : undefined;
  const allowShort = given.allowShortSecrets === true;
  const keysOf = (all: Secrets) =>
    rule && createSecretKeys(all, { ...options, toKey: (one) => toVerifyingKey(rule, one, allowShort) });
  const keys = keysOf(secrets);
  const verifierWith = (all: Secrets, own = keysOf(all)): Verifier =>
    rule && own
      ? createSignatureVerifier(checked, rule, own, options)
      : createTokenVerifier((delivery) => fillFirst(checked.proof, delivery), all, options);
  const verify =
    given.tenantSecrets === undefined
      ? verifierWith(secrets, keys)
      : createTenantVerifier(checked.tenant, given.tenantSecrets, verifierWith);
  const verifierOf = ({ verifyToken: at, unsigned }: CheckedHandshake): Verifier | undefined => {
    if (unsigned) return undefined;
    if (at === undefined) return verify;
    return createTokenVerifier((delivery) => fill(at, delivery), verifyToken, options);
  };
  return {
    ...checked,
    name,
    maxBodyBytes,
    verify,
    handshakes: checked.handshakes.map((one) => ({
      ...one,
      verify: verifierOf(one),
      signChallenge: rule && keys && challengeSigner(rule, keys),
    })),
  };
}

/** A missing secret is reported when the route is created, not when the first webhook arrives. */
function checkSecrets(
  { secrets, tenantSecrets, allowShortSecrets, verifyToken }: Partial<WebhookSource>,
  { scheme: { verify }, handshakes, tenant }: CheckedScheme,
  report: Report,
): void {
  const toKey = (secret: unknown) =>
    verify?.kind === "signature"
      ? toVerifyingKey(verify, secret, allowShortSecrets === true)
      : toTokenKey(secret);
  if (tenantSecrets === undefined) secretsProblems(secrets, toKey, "secrets").forEach(report);
  else checkTenantSecrets({ secrets, tenantSecrets, tenant, handshakes }).forEach(report);
  const asksForToken = handshakes.some((one) => one.verifyToken !== undefined);
  if (asksForToken) secretsProblems(verifyToken, toTokenKey, "verifyToken").forEach(report);
  else if (verifyToken !== undefined) report("verifyToken is given, but the scheme uses none");
}

function checkTenantSecrets(given: {
  readonly secrets: unknown;
  readonly tenantSecrets: unknown;
  readonly tenant: CheckedScheme["tenant"];
  readonly handshakes: readonly CheckedHandshake[];
}): readonly string[] {
  const { secrets, tenantSecrets, tenant, handshakes } = given;
  const parts = tenant.flat().flatMap(({ placeholder }) => placeholder ?? []);
  const isInHead = parts.length > 0 && parts.every((one) => ["header", "query", "path"].includes(one));
  return [
    ...(typeof tenantSecrets === "function" ? [] : ["tenantSecrets must be a function (tenant) => secrets"]),
    ...(secrets === undefined ? [] : ["give secrets or tenantSecrets, not both"]),
    ...(isInHead ? [] : ["with tenantSecrets, tenant must be in a header, the query or the path"]),
    ...(handshakes.some(({ hmac }) => hmac !== undefined) ? ["a handshake with {hmac} needs secrets"] : []),
  ];
}

function checkName(name: string, report: Report): void {
  try {
    requireName(name, "the source's name");
  } catch (error) {
    report((error as Error).message.replace(/\.$/, ""));
  }
  if (name.includes("/")) report("the source's name must not contain a slash");
}

/** Returns the scheme with the fields that the source overrides. */
export function withOverrides(
  scheme: unknown,
  source: Pick<WebhookScheme, (typeof overridableFields)[number]>,
): unknown {
  if (typeof scheme !== "object" || scheme === null) return scheme;
  const own = overridableFields.filter((field) => source[field] !== undefined);
  return { ...scheme, ...Object.fromEntries(own.map((field) => [field, source[field]])) };
}
