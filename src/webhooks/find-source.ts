import type { ResolvedSource } from "./sources.js";
import { decoded, webhookPath } from "./webhook-path.js";

export interface FoundSource {
  readonly source?: ResolvedSource | undefined;
  /** `/webhooks/{source}`, perhaps with the tenant behind it, without what a gateway puts before it. */
  readonly path: string;
}

export function findSource(url: string, sources: ReadonlyMap<string, ResolvedSource>): FoundSource {
  const { path, source: encoded, tenant } = webhookPath(url);
  const source = sources.get(decoded(encoded) ?? "");
  const isFound = tenant === undefined || (source !== undefined && hasTenantInPath(source));
  return isFound ? { source, path } : { path };
}

const hasTenantInPath = ({ tenant }: ResolvedSource): boolean =>
  tenant.some((parts) => parts.some((part) => part.place === "path"));
