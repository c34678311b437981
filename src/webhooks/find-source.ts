import type { ResolvedSource } from "./sources.js";

export interface FoundSource {
  readonly source?: ResolvedSource | undefined;
  /** `/webhooks/{source}`, perhaps with the tenant behind it, without what a gateway puts before it. */
  readonly path: string;
}

export function findSource(url: string, sources: ReadonlyMap<string, ResolvedSource>): FoundSource {
  const { pathname } = new URL(url);
  const [, path = "", encoded = "", tenant] =
    /^.*(\/webhooks\/([^/]+)(?:\/([^/]+))?\/?)$/.exec(pathname) ?? [];
  try {
    const source = sources.get(decodeURIComponent(encoded));
    const isFound = tenant === undefined || (source !== undefined && hasTenantInPath(source));
    return isFound ? { source, path } : { path };
  } catch {
    return { path }; // not well encoded, so nobody's name
  }
}

const hasTenantInPath = ({ tenant }: ResolvedSource): boolean =>
  tenant.some((parts) => parts.some((part) => part.place === "path"));
