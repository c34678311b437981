import { memoisePromise } from "../base/async.js";
import { type Secrets, secretsProblems } from "../base/secrets.js";
import { InvalidArgumentError } from "../errors.js";
import { requireName } from "../queue/arguments.js";
import { longestMs } from "../queue/retry-policy.js";
import { isPresetName, loadPreset, type PresetName, presetNames } from "./preset-names.js";
import { retentionProblem, toleranceOf } from "./replay-window.js";
import type { Delivery } from "./schemes/delivery.js";
import { type Report, refuseFields } from "./schemes/field-checks.js";
import type { FetchText } from "./schemes/provider-keys.js";
import {
  type CheckedHandshake,
  type CheckedScheme,
  overridableFields,
  type ReadScheme,
  readScheme,
} from "./schemes/read-scheme.js";
import type { Handshake, SignatureRule, WebhookScheme } from "./schemes/scheme.js";
import { coveredByProof } from "./schemes/signed-content.js";
import { fill, type ParsedTemplate } from "./schemes/template.js";
import {
  type ChallengeSigner,
  createChallengeSigner,
  createTenantVerifier,
  createTokenVerifier,
  createVerifier,
  type TenantSecrets,
  toKeyOf,
  toTokenKey,
  type Verifier,
} from "./schemes/verifier.js";
import { sharedNames } from "./source-names.js";

/** A sender of webhooks to `/webhooks/{name}`, and how its webhooks are read. */
export interface WebhookSource extends Pick<WebhookScheme, (typeof overridableFields)[number]> {
  /**
   * A preset, the name of one, or a scheme of your own. A preset that is named is loaded at the first request. A source with
   * the name of a preset needs no scheme: `stripe: { secrets: … }`.
   */
  readonly scheme?: PresetName | WebhookScheme;
  /** All secrets that are valid at present. Not with `tenantSecrets`. */
  readonly secrets?: Secrets;
  /**
   * The secrets of one tenant, so that one tenant cannot sign for another; undefined for an unknown tenant. The tenant must
   * be in a header, the query or the path, and its secret proves it.
   */
  readonly tenantSecrets?: TenantSecrets;
  /** Accepts secrets and tokens of fewer than 16 bytes. A secret can then be guessed from a single signed delivery, a token by trying. */
  readonly allowShortSecrets?: boolean;
  /**
   * Takes what `topic` gives as the whole topic, without the source's name. Whoever can send as this source can then run the
   * handlers of every other one.
   */
  readonly sharedTopics?: boolean;
  /**
   * Accepts a `partitionKey` that the provider does not sign. Whoever has a copy of a delivery can then put its event behind
   * those of another object, but cannot change it.
   */
  readonly allowUnsignedPartitionKey?: boolean;
  /** For handshakes that send one (Meta's `hub.verify_token`). */
  readonly verifyToken?: Secrets;
  /** How far a timestamp may differ from the clock, in the past and in the future. 5 minutes by default. */
  readonly toleranceMs?: number;
  /** 5 MiB by default. */
  readonly maxBodyBytes?: number;
  /** Added to those of the scheme, and matched before them. */
  readonly handshakes?: readonly Handshake[];
}

export interface ResolvedSource extends CheckedScheme {
  readonly name: string;
  readonly maxBodyBytes: number;
  /** From a request's arrival to its answer. */
  readonly receiveMs: number;
  readonly verify: Verifier;
  /** Whether each tenant signs for itself: an id is then unique within its tenant only. */
  readonly hasTenantSecrets: boolean;
  readonly sharedTopics: boolean;
  /** Whether a signature covers only some fields of the body, or a checksum of it. */
  readonly isSignedInPart: boolean;
  readonly handshakes: readonly ResolvedHandshake[];
}

export interface ResolvedHandshake extends CheckedHandshake {
  /** The handshake's own verifier or the scheme's. Undefined when the handshake is unsigned. */
  readonly verify: Verifier | undefined;
  readonly signChallenge: ChallengeSigner | undefined;
  /** Calls an address on a host of the delivery's sender. Returns whether it is one; rejects when it does not respond. */
  confirmAt(address: string, delivery: Delivery): Promise<boolean>;
}

interface SourceDefaults {
  readonly toleranceMs: number;
  readonly maxBodyBytes: number;
  readonly secretsMaxAgeMs: number;
  readonly receiveMs: number;
  /** Where it is known. */
  readonly retentionMs?: number | undefined;
  /** Where the route sets it: no scheme may take longer. */
  readonly longestReceiveMs?: number | undefined;
  /** For all sources. */
  readonly sharedTopics?: boolean | undefined;
  /** `checkScheme`, or `readScheme` where all schemes are presets. */
  readonly readScheme: ReadScheme;
  readonly clock: () => Date;
  readonly onStale: (source: string) => void;
  readonly keptMs?: ((source: string) => number) | undefined;
  readonly fetchText?: FetchText | undefined;
}

type Sources = Readonly<Record<string, WebhookSource>>;

/** What sources of these names must also have: only one with the name of a preset may leave out its scheme. */
export type SchemesOf<Name extends string, Source> = {
  readonly [One in Name]: One extends PresetName ? Source : string extends One ? Source : WithScheme<Source>;
};

type WithScheme<Source> = Source & { readonly scheme: PresetName | WebhookScheme };

/**
 * Checks the sources whose schemes are at hand. The function that it returns loads the presets that the others name, and
 * checks those.
 */
export function loadSources(
  given: Sources,
  defaults: SourceDefaults,
): () => Promise<ReadonlyMap<string, ResolvedSource>> {
  const all = Object.entries(withSchemes(given ?? {}));
  const named = all.filter(([, source]) => typeof source?.scheme === "string");
  const problems = named.flatMap(([name, { scheme }]) =>
    isPresetName(scheme) ? [] : `${name}: ${unknownPreset(scheme)}`,
  );
  if (!defaults.sharedTopics) problems.push(...sharedNames(given ?? {}));
  if (all.length === 0) problems.push("there is no source");
  const atHand = Object.fromEntries(all.filter((entry) => !named.includes(entry)));
  const resolved = resolveSources(atHand, problems, defaults);
  return memoisePromise(async () => {
    const loaded = named.map(
      async ([name, source]) => [name, { ...source, scheme: await schemeOf(source.scheme!) }] as const,
    );
    const others = Object.fromEntries(await Promise.all(loaded));
    return new Map([...resolved, ...resolveSources(others, [], defaults)]);
  });
}

/** The sources with their schemes: a source without one has the preset of its own name, where there is one. */
export const withSchemes = <Source extends Pick<WebhookSource, "scheme">>(
  sources: Readonly<Record<string, Source>>,
): Readonly<Record<string, Source>> =>
  Object.fromEntries(
    Object.entries(sources).map(([name, source]) =>
      source?.scheme === undefined && isPresetName(name)
        ? [name, { ...source, scheme: name }]
        : [name, source],
    ),
  );

/** Checks all sources and returns them by name. One error lists all their problems, and those that are known already. */
export function resolveSources(
  sources: Sources,
  known: readonly string[],
  defaults: SourceDefaults,
): ReadonlyMap<string, ResolvedSource> {
  const problems = [...known];
  const resolved = new Map<string, ResolvedSource>();
  for (const [name, source] of Object.entries(sources)) {
    const own: string[] = [];
    const made = resolveSource(name, source, defaults, own);
    if (made !== undefined) resolved.set(name, made);
    problems.push(...own.map((problem) => `${name}: ${problem}`));
  }
  if (problems.length > 0) throw new InvalidArgumentError(`Webhook sources: ${problems.join("; ")}.`);
  return resolved;
}

const flags = ["allowShortSecrets", "sharedTopics", "allowUnsignedPartitionKey"] as const;

const sourceFields = [
  "scheme",
  "secrets",
  "tenantSecrets",
  ...flags,
  "verifyToken",
  "toleranceMs",
  "maxBodyBytes",
  "handshakes",
  ...overridableFields,
];

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

  for (const flag of flags)
    if (![undefined, true, false].includes(given[flag])) report(`${flag} must be true or false`);
  if (given.scheme === undefined) {
    report(noScheme(name));
    return undefined;
  }
  const wrong: string[] = [];
  const checked = defaults.readScheme(withOverrides(given.scheme, given), wrong);
  const sharedTopics = given.sharedTopics ?? defaults.sharedTopics ?? false;
  if (wrong.length === 0) {
    checkSecrets(given, checked, report);
    if (!sharedTopics) checkTopic(name, checked, report);
    if (given.allowUnsignedPartitionKey !== true) checkPartitionKey(checked, report);
    const retentionMs = defaults.keptMs?.(name) ?? Number.POSITIVE_INFINITY;
    const problem = retentionProblem(given, checked.scheme, { ...defaults, retentionMs });
    if (problem !== undefined) report(problem);
  }
  problems.push(...wrong);
  if (problems.length > 0) return undefined;

  const { secrets = [], tenantSecrets, verifyToken = [] } = given;
  const { clock, secretsMaxAgeMs: maxAgeMs, fetchText, longestReceiveMs = longestMs } = defaults;
  const receiveMs = Math.min(longestReceiveMs, checked.scheme.receiveMs ?? defaults.receiveMs);
  const settings = {
    ...{ clock, maxAgeMs, fetchText, fetchMs: receiveMs },
    ...toleranceOf(given, checked.scheme, defaults),
    onStale: () => defaults.onStale(name),
    allowShort: given.allowShortSecrets === true,
  };
  const verifierWith = (all: Secrets) => createVerifier(checked, all, settings);
  const verify =
    tenantSecrets === undefined
      ? verifierWith(secrets)
      : createTenantVerifier(checked.tenant, tenantSecrets, verifierWith, clock);
  const verifierOf = ({ verifyToken: at, unsigned }: CheckedHandshake): Verifier | undefined => {
    if (unsigned) return undefined;
    if (at === undefined) return verify;
    return createTokenVerifier((delivery) => [fill(at, delivery)], verifyToken, settings);
  };
  const signChallenge = createChallengeSigner(checked, secrets, settings);
  const { certificate } = checked.scheme.verify as Partial<SignatureRule>;
  const confirmAt = async (address: string, delivery: Delivery) => {
    const { confirmAddress } = await import("./schemes/provider-keys.js");
    return confirmAddress(address, certificate!, fill(checked.sender ?? [], delivery) ?? "", settings);
  };
  return {
    ...checked,
    ...{ name, maxBodyBytes, receiveMs, verify, sharedTopics },
    hasTenantSecrets: tenantSecrets !== undefined,
    isSignedInPart: !coveredByProof(checked, anyField),
    handshakes: checked.handshakes.map((one) => ({
      ...one,
      verify: verifierOf(one),
      ...{ signChallenge, confirmAt },
    })),
  };
}

/** It is covered where the whole body is: no template of signed content has it. */
const anyField: ParsedTemplate = [{ placeholder: "json", text: "" }];

/** A missing secret is reported when the route is created, not when the first webhook arrives. */
function checkSecrets(source: Partial<WebhookSource>, checked: CheckedScheme, report: Report): void {
  const { secrets, tenantSecrets, verifyToken } = source;
  const allowShort = source.allowShortSecrets === true;
  if (tenantSecrets === undefined) {
    const toKey = toKeyOf(checked.scheme.verify, allowShort);
    secretsProblems(secrets, toKey, "secrets").forEach(report);
  } else checkTenantSecrets(source, checked, report);
  const asksForToken = checked.handshakes.some((one) => one.verifyToken !== undefined);
  const toKey = (token: unknown) => toTokenKey(token, allowShort);
  if (asksForToken) secretsProblems(verifyToken, toKey, "verifyToken").forEach(report);
  else if (verifyToken !== undefined) report("verifyToken is given, but the scheme uses none");
}

function checkTenantSecrets(
  { secrets, tenantSecrets }: Partial<WebhookSource>,
  { tenant, handshakes }: CheckedScheme,
  report: Report,
): void {
  if (typeof tenantSecrets !== "function") report("tenantSecrets must be a function (tenant) => secrets");
  if (secrets !== undefined) report("give secrets or tenantSecrets, not both");
  const parts = tenant.flat().flatMap(({ placeholder }) => placeholder ?? []);
  if (parts.length === 0 || !parts.every((one) => ["header", "query", "path"].includes(one)))
    report("with tenantSecrets, tenant must be in a header, the query or the path");
  if (handshakes.some(({ hmac }) => hmac !== undefined)) report("a handshake with {hmac} needs secrets");
}

/** The source's name would stand there twice. */
function checkTopic(name: string, { topic }: CheckedScheme, report: Report): void {
  if (topic.some(([first]) => first?.placeholder === undefined && first?.text.startsWith(`${name}.`)))
    report(`topic must give only the type: the topic begins with "${name}." already`);
}

/** Whoever has a copy of a signed delivery could send it again, and let it wait behind the messages of another object. */
function checkPartitionKey(checked: CheckedScheme, report: Report): void {
  if (!checked.partitionKey.every((template) => coveredByProof(checked, template)))
    report(
      "partitionKey has a value that the provider does not sign; take a signed one, or say allowUnsignedPartitionKey: true",
    );
}

function checkName(name: string, report: Report): void {
  try {
    requireName(name, "the source's name");
  } catch (error) {
    report((error as Error).message.replace(/\.$/, ""));
  }
  if (name.includes("/")) report("the source's name must not contain a slash");
}

/** Returns the scheme with the fields that the source overrides, and with its handshakes as well. */
export function withOverrides(
  scheme: unknown,
  source: Pick<WebhookScheme, (typeof overridableFields)[number] | "handshakes">,
): unknown {
  if (typeof scheme !== "object" || scheme === null) return scheme;
  const own = overridableFields.filter((field) => source[field] !== undefined);
  const overridden = { ...scheme, ...Object.fromEntries(own.map((field) => [field, source[field]])) };
  if (source.handshakes === undefined) return overridden;
  const { handshakes = [] } = scheme as WebhookScheme;
  return { ...overridden, handshakes: [source.handshakes, handshakes].flat() };
}

/** Returns the scheme itself, or the preset of that name. */
export async function schemeOf(scheme: string | WebhookScheme): Promise<WebhookScheme> {
  if (typeof scheme !== "string") return scheme;
  if (!isPresetName(scheme)) throw new InvalidArgumentError(`Webhooks: ${unknownPreset(scheme)}.`);
  return loadPreset(scheme);
}

/**
 * Returns what reads the schemes of these sources. Presets as they are were checked by the tests, so that an app with
 * nothing else does not load the code that checks schemes.
 */
export async function schemeReader(given: Sources): Promise<ReadScheme> {
  const sources = withSchemes(given);
  const isPreset = (source: WebhookSource): boolean =>
    isPresetName(source?.scheme) &&
    [...overridableFields, "handshakes" as const].every((field) => source[field] === undefined);
  if (Object.values(sources).every(isPreset)) return readScheme;
  return (await import("./schemes/check-scheme.js")).checkScheme;
}

const noScheme = (name: string): string =>
  `it has no scheme, and its name is not that of a preset: write ${JSON.stringify(name)}: { scheme: … } with one of ${presetNames.join(", ")}, or with a scheme of your own`;

const unknownPreset = (name: unknown): string =>
  `the scheme ${JSON.stringify(name)} is not known; known: ${presetNames.join(", ")}`;
