import type { ResolvedSource } from "./sources.js";

export interface FoundSource {
  readonly source?: ResolvedSource | undefined;
  /** `/webhooks/{source}`, without what a gateway puts before it. */
  readonly path: string;
}

export function findSource(url: string, sources: ReadonlyMap<string, ResolvedSource>): FoundSource {
  const { pathname } = new URL(url);
  const [, path = "", encoded = ""] = /^.*(\/webhooks\/([^/]+)\/?)$/.exec(pathname) ?? [];
  try {
    return { source: sources.get(decodeURIComponent(encoded)), path };
  } catch {
    return { path }; // not well encoded, so nobody's name
  }
}
