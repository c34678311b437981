import { InvalidOperationError } from "../../errors.js";
import type { FetchText } from "./fetch-text.js";

export interface RemoteDocumentsOptions<Document> {
  readonly fetchText: FetchText;
  readonly parse: (text: string) => Document;
  readonly maxAgeMs: number;
  readonly fetchMs: number;
  readonly clock: () => Date;
}

/** Deliveries that nothing proves yet name the addresses, so few are kept and few are fetched. */
const maxKept = 20;
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
    if (fetchedAt.length >= maxFetches)
      throw new InvalidOperationError("Too many keys of providers were asked for within a minute.");
    fetchedAt.push(now);
    const document = parse(await options.fetchText(url, AbortSignal.timeout(fetchMs)));
    kept.set(url, { document, until: now + maxAgeMs });
    if (kept.size > maxKept) kept.delete(kept.keys().next().value!);
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
