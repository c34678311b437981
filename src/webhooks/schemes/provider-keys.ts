import { X509Certificate } from "node:crypto";
import { safeReason } from "../../base/logger.js";
import type { SecretKeys } from "../../base/secrets.js";
import { InvalidOperationError } from "../../errors.js";
import { fetchCause } from "../../http/body.js";
import { isCertificateAddress, isProviderAddress } from "./certificate-address.js";
import type { CheckedProof } from "./read-scheme.js";
import type { CertificateRule, PublicKeyAlgorithm, SignatureRule } from "./scheme.js";
import type { KeysOf } from "./signature-verifier.js";
import { type SigningKey, verifyingKey } from "./signing-key.js";
import { fill } from "./template.js";
import type { PinnedSecret, VerifierSettings } from "./verifier.js";

/**
 * Returns the public key of the certificate that a delivery names, once for each of the source's secrets. Nothing is fetched
 * for a sender that is not the source's.
 */
export function certificateKeys(
  { certificateUrl = [], algorithmBy, sender }: CheckedProof,
  rule: SignatureRule & { readonly certificate: CertificateRule },
  secrets: SecretKeys<PinnedSecret>,
  settings: VerifierSettings,
): KeysOf {
  const certificates = new ProviderDocuments(settings, (text) => new X509Certificate(text));
  return async (delivery, events) => {
    const pinned = await secrets.get();
    const names = sender === undefined ? [""] : events.map((event) => fill(sender, event) ?? "");
    if (sender !== undefined && !names.every((name) => pinned.some(({ secret }) => secret === name)))
      return "sender unknown";
    const named = algorithmBy && fill(algorithmBy, delivery);
    const algorithm = algorithmBy === undefined ? rule.algorithm : rule.algorithmBy?.is[named ?? ""];
    if (algorithm === undefined) return "algorithm unknown";
    const url = fill(certificateUrl, delivery);
    if (url === undefined || !isCertificateAddress(url, rule.certificate, names[0]!))
      return "certificate not of the provider";
    const certificate = await certificates.at(url);
    const now = settings.clock().getTime();
    const isValid = Date.parse(certificate.validFrom) <= now && now <= Date.parse(certificate.validTo);
    if (!isValid) return "certificate not valid";
    const key = verifyingKey(certificate.publicKey, algorithm as PublicKeyAlgorithm, rule.prefix ?? "");
    if (typeof key === "string") return "certificate not valid";
    const proving = provingKey(key, () => certificates.trust(url));
    return pinned.map(({ secret }) => ({ ...proving, secret }));
  };
}

/** A key that says when it has verified something. */
const provingKey = (key: SigningKey, onProof: () => void): SigningKey => ({
  ...key,
  verify(content, signatures) {
    const isRight = key.verify(content, signatures);
    if (isRight) onProof();
    return isRight;
  },
});

const maxAgeMs = 86_400_000;
/** A document that lacks what a delivery names is fetched again when it is older than this. */
const freshMs = 10_000;
/** An address that failed is not called again for so long. */
const failedMs = 10_000;
/** Of those that have verified something, and as many of those that have not. */
const maxKept = 20;
/** In a minute: of those that have verified something, and as many of those that have not. */
const maxFetches = 30;
const perMs = 60_000;

interface Kept<Document> {
  readonly fetchedAt: number;
  readonly document?: Document;
  /** Why there is no document. */
  readonly failure?: unknown;
}

/** Addresses with what was fetched from them, and the fetches of the last minute. */
class Shelf<Document> {
  readonly kept = new Map<string, Kept<Document> | undefined>();
  fetchedAt: readonly number[] = [];

  /** The last that were put are kept. */
  put(url: string, document: Kept<Document> | undefined): void {
    this.kept.delete(url);
    this.kept.set(url, document);
    if (this.kept.size > maxKept) this.kept.delete(this.kept.keys().next().value!);
  }
}

/**
 * Certificates and keys of providers, fetched at their first use and kept for a day. Deliveries that nothing proves name the
 * addresses. So those that have verified something are kept apart and have fetches of their own: what strangers make up
 * neither evicts nor starves them.
 */
export class ProviderDocuments<Document> {
  readonly #settings: Pick<VerifierSettings, "fetchText" | "fetchMs" | "clock">;
  readonly #parse: (text: string) => Document;
  readonly #trusted = new Shelf<Document>();
  readonly #unproven = new Shelf<Document>();
  readonly #running = new Map<string, Promise<Document>>();

  constructor(
    settings: Pick<VerifierSettings, "fetchText" | "fetchMs" | "clock">,
    parse: (text: string) => Document,
  ) {
    this.#settings = settings;
    this.#parse = parse;
  }

  /** Says that what is at this address has verified something, or that the scheme itself names it. */
  trust(url: string): void {
    this.#trusted.put(url, this.#trusted.kept.get(url) ?? this.#unproven.kept.get(url));
    this.#unproven.kept.delete(url);
  }

  /** @param isFresh whether the document lacked what was looked for: it may have been published since it was fetched */
  async at(url: string, isFresh = false): Promise<Document> {
    const found = this.#shelfOf(url).kept.get(url);
    const age = this.#now() - (found?.fetchedAt ?? Number.NEGATIVE_INFINITY);
    if (found?.document !== undefined && age < (isFresh ? freshMs : maxAgeMs)) return found.document;
    if (found?.failure !== undefined && age < failedMs) throw found.failure;
    const fetching = this.#running.get(url) ?? this.#fetched(url).finally(() => this.#running.delete(url));
    this.#running.set(url, fetching);
    return fetching;
  }

  #now(): number {
    return this.#settings.clock().getTime();
  }

  #shelfOf(url: string): Shelf<Document> {
    return this.#trusted.kept.has(url) ? this.#trusted : this.#unproven;
  }

  async #fetched(url: string): Promise<Document> {
    const { fetchText: fetchDocument = fetchText, fetchMs } = this.#settings;
    const fetchedAt = this.#now();
    const budget = this.#shelfOf(url);
    budget.fetchedAt = budget.fetchedAt.filter((at) => at > fetchedAt - perMs);
    if (budget.fetchedAt.length >= maxFetches)
      throw new InvalidOperationError("Too many keys of providers were asked for within a minute.");
    budget.fetchedAt = [...budget.fetchedAt, fetchedAt];
    try {
      const document = this.#parse(await fetchDocument(url, AbortSignal.timeout(fetchMs)));
      this.#shelfOf(url).put(url, { fetchedAt, document });
      return document;
    } catch (failure) {
      this.#shelfOf(url).put(url, { fetchedAt, failure });
      throw failure;
    }
  }
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

/** Calls an address of the provider. Returns whether it is one of the sender's hosts; rejects when it does not respond. */
export async function confirmAddress(
  address: string,
  rule: CertificateRule,
  sender: string,
  { fetchText: fetchAddress = fetchText, fetchMs }: Pick<VerifierSettings, "fetchText" | "fetchMs">,
): Promise<boolean> {
  if (!isProviderAddress(address, rule, sender)) return false;
  await fetchAddress(address, AbortSignal.timeout(fetchMs));
  return true;
}
