import { X509Certificate } from "node:crypto";
import { safeReason } from "../../base/logger.js";
import type { SecretKeys } from "../../base/secrets.js";
import { InvalidOperationError } from "../../errors.js";
import { fetchCause } from "../../http/body.js";
import type { Delivery } from "./delivery.js";
import type { CheckedProof } from "./read-scheme.js";
import type { CertificateRule, PublicKeyAlgorithm, SignatureRule } from "./scheme.js";
import { type SigningKey, verifyingKey } from "./signing-key.js";
import { fill } from "./template.js";
import type { Refusal } from "./verifier.js";

/** The keys of a delivery: the certificate's public key, once for each of the source's secrets. */
export type KeysOf = (delivery: Delivery) => Promise<readonly SigningKey[] | Refusal>;

/** A secret of a source whose provider signs with a certificate: the name of the sender, not a key. */
export interface PinnedSecret {
  readonly secret: string;
}

const dayMs = 86_400_000;

export interface CertificateOptions {
  readonly fetchText: FetchText;
  readonly fetchMs: number;
  readonly clock: () => Date;
}

/** Returns the public key of the certificate that the delivery names, from one of the provider's own hosts. */
export function certificateKeys(
  { certificateUrl, algorithmBy }: CheckedProof,
  rule: SignatureRule & { readonly certificate: CertificateRule },
  secrets: SecretKeys<PinnedSecret>,
  options: CertificateOptions,
): KeysOf {
  const certificateAt = remoteDocuments({
    ...options,
    maxAgeMs: dayMs,
    parse: (text) => new X509Certificate(text),
  });
  return async (delivery) => {
    const pinned = await secrets.get();
    const url = fill(certificateUrl ?? [], delivery);
    if (url === undefined || !isPinnedFile(url, rule.certificate.hosts))
      return "certificate not of the provider";
    const certificate = await certificateAt(url);
    const now = options.clock().getTime();
    const isValid = Date.parse(certificate.validFrom) <= now && now <= Date.parse(certificate.validTo);
    if (!isValid) return "certificate not valid";
    const named = algorithmBy && fill(algorithmBy, delivery);
    const algorithm = algorithmBy === undefined ? rule.algorithm : rule.algorithmBy?.is[named ?? ""];
    if (algorithm === undefined) return "algorithm unknown";
    const key = verifyingKey(certificate.publicKey, algorithm as PublicKeyAlgorithm, rule.prefix ?? "");
    return typeof key === "string"
      ? "certificate not valid"
      : pinned.map(({ secret }) => ({ ...key, secret }));
  };
}

export interface RemoteDocumentsOptions<Document> {
  readonly fetchText: FetchText;
  readonly parse: (text: string) => Document;
  readonly maxAgeMs: number;
  readonly fetchMs: number;
  readonly clock: () => Date;
}

/** Deliveries that nothing proves yet name the addresses, so few are kept and few are fetched. */
const maxKeptDocuments = 20;
const maxFetches = 30;
const perMs = 60_000;

/** Certificates and keys of providers, fetched at their first use and kept for `maxAgeMs`. `isFresh` fetches them again. */
export function remoteDocuments<Document>(
  options: RemoteDocumentsOptions<Document>,
): (url: string, isFresh?: boolean) => Promise<Document> {
  const { parse, maxAgeMs, fetchMs, clock } = options;
  const kept = new Map<string, { readonly document: Document; readonly until: number }>();
  const running = new Map<string, Promise<Document>>();
  let fetchedAt: number[] = [];

  const fetched = async (url: string): Promise<Document> => {
    const now = clock().getTime();
    fetchedAt = fetchedAt.filter((at) => at > now - perMs);
    // those that are made up do not use up the fetches of one that was there before, and has grown old
    const isKnown = (kept.get(url)?.until ?? Infinity) <= now;
    if (fetchedAt.length >= (isKnown ? 2 * maxFetches : maxFetches))
      throw new InvalidOperationError("Too many keys of providers were asked for within a minute.");
    fetchedAt.push(now);
    const document = parse(await options.fetchText(url, AbortSignal.timeout(fetchMs)));
    kept.set(url, { document, until: now + maxAgeMs });
    if (kept.size > maxKeptDocuments) kept.delete(kept.keys().next().value!);
    return document;
  };

  return async (url, isFresh = false) => {
    const found = isFresh ? undefined : kept.get(url);
    if (found !== undefined && clock().getTime() < found.until) return found.document;
    const fetching = running.get(url) ?? fetched(url).finally(() => running.delete(url));
    running.set(url, fetching);
    return fetching;
  };
}

/** Fetches a text by https. Tests pass one of their own. */
export type FetchText = (url: string, signal: AbortSignal) => Promise<string>;

const maxDocumentBytes = 256 * 1_024;

/** Follows no redirect: the address was checked, and the one behind it was not. */
export const fetchText: FetchText = async (url, signal) => {
  const { host } = new URL(url);
  const unreachable = (error: unknown): never => {
    throw new InvalidOperationError(`${host} could not be reached: ${safeReason(fetchCause(error))}.`);
  };
  const response = await fetch(url, { redirect: "error", signal }).catch(unreachable);
  if (!response.ok) throw new InvalidOperationError(`${host} answered ${response.status}.`);
  const text = await response.text().catch(unreachable);
  if (text.length > maxDocumentBytes) throw new InvalidOperationError(`${host} sent more than a key.`);
  return text;
};

/** Calls an address of the provider. Returns whether it is one of the provider's; rejects when it does not respond. */
export async function confirmAddress(
  address: string | undefined,
  hosts: readonly string[],
  fetchText: FetchText,
  withinMs: number,
): Promise<boolean> {
  if (address === undefined || !isPinned(address, hosts)) return false;
  await fetchText(address, AbortSignal.timeout(withinMs));
  return true;
}

/** Whether the address is https, without a port, a user or a password, on one of the hosts. */
export function isPinned(url: string, hosts: readonly string[]): boolean {
  if (!URL.canParse(url)) return false;
  const { protocol, hostname, port, username, password } = new URL(url);
  const isPlain = protocol === "https:" && port === "" && username === "" && password === "";
  return isPlain && hosts.some((pattern) => toRegExp(pattern).test(hostname));
}

/** A `*` stands for letters and digits. */
const toRegExp = (pattern: string): RegExp =>
  new RegExp(`^${pattern.replaceAll(".", "\\.").replaceAll("*", "[a-z0-9]+")}$`);

/** A certificate has one address. With a query of its own each unproven delivery could name a new one, and so have it fetched. */
export const isPinnedFile = (url: string, hosts: readonly string[]): boolean =>
  isPinned(url, hosts) && new URL(url).href === url && !/[?#]/.test(url);
