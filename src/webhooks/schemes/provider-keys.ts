import { X509Certificate } from "node:crypto";
import { safeReason } from "../../base/logger.js";
import type { SecretKeys } from "../../base/secrets.js";
import { InvalidOperationError } from "../../errors.js";
import { fetchCause } from "../../http/body.js";
import type { CheckedProof } from "./read-scheme.js";
import type { PublicKeyAlgorithm, SignatureRule } from "./scheme.js";
import type { KeysOf } from "./signature-verifier.js";
import { verifyingKey } from "./signing-key.js";
import { fill } from "./template.js";
import type { PinnedSecret, VerifierSettings } from "./verifier.js";

/** Returns the public key of the certificate that a delivery names, once for each of the source's secrets. */
export function certificateKeys(
  { certificateUrl = [], algorithmBy }: CheckedProof,
  rule: SignatureRule,
  secrets: SecretKeys<PinnedSecret>,
  settings: VerifierSettings,
): KeysOf {
  const certificateAt = remoteDocuments(settings, (text) => new X509Certificate(text));
  return async (delivery) => {
    const pinned = await secrets.get();
    const url = fill(certificateUrl, delivery);
    if (url === undefined || !isPinnedFile(url, rule.certificate?.hosts ?? []))
      return "certificate not of the provider";
    const certificate = await certificateAt(url);
    const now = settings.clock().getTime();
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

const maxAgeMs = 86_400_000;
/** Deliveries that nothing proves yet name the addresses, so few are kept and few are fetched. */
const maxKeptDocuments = 20;
const maxFetches = 30;
const perMs = 60_000;

/** Certificates and keys of providers, fetched at their first use and kept for a day. `isFresh` fetches them again. */
export function remoteDocuments<Document>(
  settings: Pick<VerifierSettings, "fetchText" | "fetchMs" | "clock">,
  parse: (text: string) => Document,
): (url: string, isFresh?: boolean) => Promise<Document> {
  const { fetchText: fetchDocument = fetchText, fetchMs, clock } = settings;
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
    const document = parse(await fetchDocument(url, AbortSignal.timeout(fetchMs)));
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
  { fetchText: fetchAddress = fetchText, fetchMs }: Pick<VerifierSettings, "fetchText" | "fetchMs">,
): Promise<boolean> {
  if (address === undefined || !isPinned(address, hosts)) return false;
  await fetchAddress(address, AbortSignal.timeout(fetchMs));
  return true;
}

/** A certificate has one address. With a query of its own each unproven delivery could name a new one, and so have it fetched. */
const isPinnedFile = (url: string, hosts: readonly string[]): boolean =>
  isPinned(url, hosts) && new URL(url).href === url && !/[?#]/.test(url);

/** Whether the address is https, without a port, a user or a password, on one of the hosts. */
function isPinned(url: string, hosts: readonly string[]): boolean {
  if (!URL.canParse(url)) return false;
  const { protocol, hostname, port, username, password } = new URL(url);
  const isPlain = protocol === "https:" && port === "" && username === "" && password === "";
  return isPlain && hosts.some((pattern) => toRegExp(pattern).test(hostname));
}

/** A `*` stands for letters and digits. */
const toRegExp = (pattern: string): RegExp =>
  new RegExp(`^${pattern.replaceAll(".", "\\.").replaceAll("*", "[a-z0-9]+")}$`);
